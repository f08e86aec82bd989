//go:build tools

// The pin of helm, with which tests install the charts.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
