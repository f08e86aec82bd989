variable "cluster_name" {
  description = "Name of the EKS cluster"
  type        = string
  validation {
    condition     = length(var.cluster_name) > 0
    error_message = "cluster_name must not be empty."
  }
}

variable "namespace" {
  description = "Namespace of the services"
  type        = string
  default     = "kube-system"
}

variable "pod_identity" {
  description = "EKS Pod Identity associations; false makes roles for IRSA, to be put on the ServiceAccounts"
  type        = bool
  default     = true
}

variable "oidc_provider" {
  description = "For IRSA: the cluster's OIDC issuer without https://"
  type        = string
  default     = ""
}

variable "manage_rules" {
  description = "interruption-watcher makes the EventBridge rules itself"
  type        = bool
  default     = false
}
