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
    NodeRoleArn = aws_iam_role.node.arn
    QueueArn    = aws_sqs_queue.interruption.arn
  }

  rules = {
    ScheduledChange                 = { source = "aws.health", detail = "AWS Health Event" }
    SpotInterruption                = { source = "aws.ec2", detail = "EC2 Spot Instance Interruption Warning" }
    Rebalance                       = { source = "aws.ec2", detail = "EC2 Instance Rebalance Recommendation" }
    InstanceStateChange             = { source = "aws.ec2", detail = "EC2 Instance State-change Notification" }
    CapacityReservationInterruption = { source = "aws.ec2", detail = "EC2 Capacity Reservation Instance Interruption Warning" }
  }
}

resource "aws_iam_role" "node" {
  name = "KarpenterNodeRole-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.${data.aws_partition.current.dns_suffix}" } }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

# Lets nodes with that role join the cluster.
resource "aws_eks_access_entry" "node" {
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}

resource "aws_iam_policy" "service" {
  for_each = local.policies
  name     = "Karpenter${each.value.name}-${var.cluster_name}"
  policy   = templatefile("${path.module}/../policies/${each.key}.json", local.policy_values)
}

resource "aws_iam_role" "service" {
  for_each = local.services
  name     = "Karpenter${each.value}-${var.cluster_name}"
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
