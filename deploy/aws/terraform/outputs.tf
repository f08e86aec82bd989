output "node_role_name" {
  value = aws_iam_role.node.name
}

output "interruption_queue_name" {
  value = aws_sqs_queue.interruption.name
}

output "service_role_arns" {
  description = "By service; for IRSA, each goes to <service>.serviceAccount.annotations"
  value       = { for service, role in aws_iam_role.service : service => role.arn }
}
