output "node_role_name" {
  description = "Of the new node role; null with node_role_arns"
  value       = one(aws_iam_role.node[*].name)
}

output "windows_node_role_name" {
  value = one(aws_iam_role.windows_node[*].name)
}

output "interruption_queue_name" {
  description = "For settings.interruptionQueue"
  value       = element(split(":", local.queue_arn), 5)
}

output "service_role_arns" {
  description = "By service; for IRSA, each goes to <service>.serviceAccount.annotations"
  value       = { for service, role in aws_iam_role.service : service => role.arn }
}
