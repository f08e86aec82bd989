# The same as ../cloudformation.yaml, from the same policies.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.40" }
  }
}

data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  partition   = data.aws_partition.current.partition
  region      = data.aws_region.current.name
  account     = data.aws_caller_identity.current.account_id
  cluster_arn = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"

  # Names within the limits of IAM (64 characters), SQS (80) and EventBridge (64), for cluster names of up to 100. The prefix of
  # each kind is the longest; a shortened name ends with a hash, so that two clusters never share one.
  hash         = substr(sha256(var.cluster_name), 0, 8)
  node_name    = length(var.cluster_name) <= 39 ? var.cluster_name : "${substr(var.cluster_name, 0, 30)}-${local.hash}"
  service_name = length(var.cluster_name) <= 35 ? var.cluster_name : "${substr(var.cluster_name, 0, 26)}-${local.hash}"
  queue_name   = length(var.cluster_name) <= 80 ? var.cluster_name : "${substr(var.cluster_name, 0, 71)}-${local.hash}"
  # As interruption-watcher names its rules.
  rule_prefix = length(var.cluster_name) <= 28 ? var.cluster_name : "${substr(var.cluster_name, 0, 19)}-*"

  new_node_role  = length(var.node_role_arns) == 0
  new_queue      = var.queue_arn == ""
  node_role_arns = concat(local.new_node_role ? [aws_iam_role.node[0].arn] : var.node_role_arns, aws_iam_role.windows_node[*].arn)
  queue_arn      = local.new_queue ? aws_sqs_queue.interruption[0].arn : var.queue_arn

  # disruption asks AWS for nothing and has no role.
  services = {
    provisioner            = "Provisioner"
    termination            = "Termination"
    "interruption-watcher" = "InterruptionWatcher"
    "pricing-cache"        = "PricingCache"
  }

  # By file in ../policies. The provisioner has two because one has room for 6144 characters.
  policies = {
    provisioner            = { service = "provisioner", name = "Provisioner" }
    "provisioner-profiles" = { service = "provisioner", name = "ProvisionerProfiles" }
    termination            = { service = "termination", name = "Termination" }
    "interruption-watcher" = { service = "interruption-watcher", name = "InterruptionWatcher" }
    "pricing-cache"        = { service = "pricing-cache", name = "PricingCache" }
  }

  policy_values = {
    Partition   = local.partition
    Region      = local.region
    Account     = local.account
    ClusterName = var.cluster_name
    ClusterArn  = local.cluster_arn
    RulePrefix  = local.rule_prefix
    QueueArn    = local.queue_arn
    # The policy has one string for all of them.
    NodeRoleArns = join("\", \"", local.node_role_arns)
  }

  node_policies = toset(["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])
  trusted_by_ec2 = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" } }]
  })

  rules = {
    ScheduledChange                 = { source = "aws.health", detail = "AWS Health Event" }
    SpotInterruption                = { source = "aws.ec2", detail = "EC2 Spot Instance Interruption Warning" }
    Rebalance                       = { source = "aws.ec2", detail = "EC2 Instance Rebalance Recommendation" }
    InstanceStateChange             = { source = "aws.ec2", detail = "EC2 Instance State-change Notification" }
    CapacityReservationInterruption = { source = "aws.ec2", detail = "EC2 Capacity Reservation Instance Interruption Warning" }
  }
}

resource "aws_iam_role" "node" {
  count                = local.new_node_role ? 1 : 0
  name                 = "KarpenterNodeRole-${local.node_name}"
  path                 = var.path
  permissions_boundary = var.permissions_boundary
  assume_role_policy   = local.trusted_by_ec2
  tags                 = var.tags
}

# Windows nodes need an access entry of another type, and so a role of their own.
resource "aws_iam_role" "windows_node" {
  count                = var.windows_nodes ? 1 : 0
  name                 = "KarpenterWindowsNodeRole-${local.node_name}"
  path                 = var.path
  permissions_boundary = var.permissions_boundary
  assume_role_policy   = local.trusted_by_ec2
  tags                 = var.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = local.new_node_role ? local.node_policies : toset([])
  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_role_policy_attachment" "windows_node" {
  for_each   = var.windows_nodes ? local.node_policies : toset([])
  role       = aws_iam_role.windows_node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

# Lets nodes with that role join the cluster.
resource "aws_eks_access_entry" "node" {
  count         = local.new_node_role && var.create_access_entry ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node[0].arn
  type          = "EC2_LINUX"
  tags          = var.tags
}

resource "aws_eks_access_entry" "windows_node" {
  count         = var.windows_nodes && var.create_access_entry ? 1 : 0
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.windows_node[0].arn
  type          = "EC2_WINDOWS"
  tags          = var.tags
}

resource "aws_iam_policy" "service" {
  for_each = local.policies
  name     = "Karpenter${each.value.name}-${local.service_name}"
  path     = var.path
  tags     = var.tags
  policy   = templatefile("${path.module}/../policies/${each.key}.json", local.policy_values)
}

resource "aws_iam_role" "service" {
  for_each             = local.services
  name                 = "Karpenter${each.value}-${local.service_name}"
  path                 = var.path
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
  assume_role_policy = var.pod_identity ? jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = ["sts:AssumeRole", "sts:TagSession"], Principal = { Service = "pods.eks.amazonaws.com" } }]
    }) : jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRoleWithWebIdentity"
      Principal = { Federated = "arn:${local.partition}:iam::${local.account}:oidc-provider/${var.oidc_provider}" }
      Condition = { StringEquals = {
        "${var.oidc_provider}:aud" = "sts.amazonaws.com"
        "${var.oidc_provider}:sub" = "system:serviceaccount:${var.namespace}:karpenter-${each.key}"
      } }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "service" {
  for_each   = local.policies
  role       = aws_iam_role.service[each.value.service].name
  policy_arn = aws_iam_policy.service[each.key].arn
}

resource "aws_eks_pod_identity_association" "service" {
  for_each        = var.pod_identity ? local.services : {}
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = "karpenter-${each.key}"
  role_arn        = aws_iam_role.service[each.key].arn
}

# Only when interruption-watcher makes the rules itself.
resource "aws_iam_role_policy" "rules" {
  count  = var.manage_rules ? 1 : 0
  name   = "rules"
  role   = aws_iam_role.service["interruption-watcher"].id
  policy = templatefile("${path.module}/../policies/interruption-rules.json", local.policy_values)
}
