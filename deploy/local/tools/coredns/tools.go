//go:build tools

// The pin of CoreDNS, the cluster DNS beside the real kubelet.
package tools

import _ "github.com/coredns/coredns"
