"""User data as the autoscaler and people write it, and instance types as EC2 describes them."""

from __future__ import annotations

CA = "Q0VSVElGSUNBVEU="

NODEADM = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 50
      evictionHard:
        memory.available: 5%
    flags:
    - --node-labels=team=a,shared=user

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: Q0VSVElGSUNBVEU=
    cidr: 10.96.0.0/16
  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      maxPods: 29
      clusterDNS: [10.96.0.10]
      kubeReserved: {cpu: 200m, memory: 1Gi}
      registerWithTaints:
      - {key: karpenter.sh/unregistered, effect: NoExecute}
      - {key: dedicated, value: gpu, effect: NoSchedule}
    flags:
    - --node-labels="karpenter.sh/nodepool=default,shared=system"

--//--
"""

BOOTSTRAP_SH = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
# /etc/eks/bootstrap.sh is called below
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://127.0.0.1:6443' --b64-cluster-ca 'Q0VSVElGSUNBVEU=' \\
--dns-cluster-ip '10.96.0.10' \\
--use-max-pods false \\
--kubelet-extra-args '--node-labels="karpenter.sh/nodepool=default,a=b" --register-with-taints="karpenter.sh/unregistered:NoExecute,x=y:NoSchedule" --max-pods=29 --system-reserved="cpu=100m,memory=100Mi" --eviction-hard="memory.available<5%,nodefs.available<10%"' \\
--local-disks raid0
--//--
"""

BOTTLEROCKET = """
[settings.kernel]
lockdown = "integrity"

[settings.kubernetes]
cluster-name = 'demo'
api-server = 'https://127.0.0.1:6443'
cluster-certificate = 'Q0VSVElGSUNBVEU='
cluster-dns-ip = '10.96.0.10'
max-pods = 29

[settings.kubernetes.node-labels]
'karpenter.sh/nodepool' = 'default'

[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
dedicated = ['gpu:NoSchedule', 'gpu:NoExecute']

[settings.kubernetes.kube-reserved]
memory = '2Gi'

[settings.kubernetes.eviction-hard]
'memory.available' = '12%'
"""

WINDOWS = """<powershell>
Write-Host "user's own line"
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://127.0.0.1:6443' -Base64ClusterCA 'Q0VSVElGSUNBVEU=' -KubeletExtraArgs '--node-labels="karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110' -DNSClusterIP '10.96.0.10'
</powershell>"""

M5_LARGE = {
    "InstanceType": "m5.large",
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 8192},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "NetworkInfo": {
        "DefaultNetworkCardIndex": 0,
        "Ipv4AddressesPerInterface": 10,
        "MaximumNetworkInterfaces": 3,
        "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}],
    },
}
M6G_LARGE = {**M5_LARGE, "InstanceType": "m6g.large", "ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}
P4D = {
    "InstanceType": "p4d.24xlarge",
    "VCpuInfo": {"DefaultVCpus": 96},
    "MemoryInfo": {"SizeInMiB": 1179648},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "InstanceStorageInfo": {"TotalSizeInGB": 8000},
    "GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA", "Name": "A100", "Count": 8}]},
    "NetworkInfo": {
        "DefaultNetworkCardIndex": 0,
        "Ipv4AddressesPerInterface": 50,
        "MaximumNetworkInterfaces": 60,
        "NetworkCards": [{"NetworkCardIndex": i, "MaximumNetworkInterfaces": 15} for i in range(4)],
    },
}
