# Warnings from AWS: EventBridge rules into one queue named as the cluster.
resource "aws_sqs_queue" "interruption" {
  count                     = local.new_queue ? 1 : 0
  name                      = local.queue_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  # More receives than fit into the retention of a message that only waits for another service.
  redrive_policy = var.dead_letter_queue ? jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead_letters[0].arn, maxReceiveCount = 20 }) : null
  tags           = var.tags
}

# Messages that cannot be handled, for 14 days.
resource "aws_sqs_queue" "dead_letters" {
  count                     = local.new_queue && var.dead_letter_queue ? 1 : 0
  name_prefix               = "${substr(var.cluster_name, 0, 40)}-dead-"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "interruption" {
  count     = local.new_queue ? 1 : 0
  queue_url = aws_sqs_queue.interruption[0].url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = ["events.amazonaws.com", "sqs.amazonaws.com"] }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.interruption[0].arn
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
      {
        Sid       = "DenyHTTP"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.interruption[0].arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each      = var.manage_rules || !local.new_queue ? {} : local.rules
  name_prefix   = "${substr(var.cluster_name, 0, 37)}-"
  tags          = var.tags
  description   = each.key
  event_pattern = jsonencode({ source = [each.value.source], "detail-type" = [each.value.detail] })
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each  = var.manage_rules || !local.new_queue ? {} : local.rules
  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption[0].arn
}
