//go:build tools

// The pin of grpcurl, with which people and the demo call the services.
package tools

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
