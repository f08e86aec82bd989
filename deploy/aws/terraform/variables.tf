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

variable "node_role_arns" {
  description = "Existing node roles, in place of a new one; their access to the cluster is left as it is"
  type        = list(string)
  default     = []
}

variable "queue_arn" {
  description = "An existing interruption queue of this account and region, in place of a new one; its policy and rules are left as they are"
  type        = string
  default     = ""
}

variable "create_access_entry" {
  description = "false where nodes join by the ConfigMap aws-auth (authentication mode CONFIG_MAP), or where the entry exists"
  type        = bool
  default     = true
}

variable "windows_nodes" {
  description = "A second node role, for EC2NodeClasses of Windows: its access entry is of another type"
  type        = bool
  default     = false
}

variable "dead_letter_queue" {
  description = "Keep messages that cannot be handled for 14 days in a queue of their own"
  type        = bool
  default     = false
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for all roles made here"
  type        = string
  default     = null
}

variable "path" {
  description = "IAM path of all roles and policies made here"
  type        = string
  default     = "/"
}

variable "tags" {
  description = "Tags of everything made here"
  type        = map(string)
  default     = {}
}
