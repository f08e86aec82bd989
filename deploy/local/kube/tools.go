//go:build tools

// The programs of the same Kubernetes release that are built apart from the combined binary.
// Naming them here keeps their dependencies in go.mod and go.sum.
package main

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
