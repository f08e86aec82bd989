//go:build tools

// The pin of kwok, which plays the kubelets of the local stack.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
