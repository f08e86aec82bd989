//go:build tools

// The pin of Jaeger, the trace sink of the local stack. go.mod started as Jaeger's own, because
// the module carries a replace directive and so cannot be installed by version.
package tools

import _ "github.com/jaegertracing/jaeger/cmd/jaeger"
