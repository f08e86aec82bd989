{{/*
The settings as the services read them (services/lib/runtime: config.rs, settings.rs). Every value is written out, also false
and 0, so that what the chart says is what holds.
*/}}
{{- define "karpenter.environment" -}}
{{- $v := .root.Values }}
{{- $name := tpl (toString $v.settings.clusterName) .root }}
{{- if not $name }}
{{- fail "settings.clusterName is required: the name of the EKS cluster, e.g. --set settings.clusterName=my-cluster" }}
{{- end }}
{{- $gates := list }}
{{- range $gate, $on := $v.settings.featureGates }}
{{- $gates = append $gates (printf "%s%s=%v" (substr 0 1 $gate | upper) (substr 1 -1 $gate) $on) }}
{{- end }}
{{- $fixed := list
  (list "CLUSTER_NAME" $v.settings.clusterName)
  (list "CLUSTER_ENDPOINT" $v.settings.clusterEndpoint)
  (list "CLUSTER_CA_BUNDLE" $v.settings.clusterCABundle)
  (list "ISOLATED_VPC" $v.settings.isolatedVPC)
  (list "EKS_CONTROL_PLANE" $v.settings.eksControlPlane)
  (list "VM_MEMORY_OVERHEAD_PERCENT" $v.settings.vmMemoryOverheadPercent)
  (list "INTERRUPTION_QUEUE" $v.settings.interruptionQueue)
  (list "RESERVED_ENIS" $v.settings.reservedENIs)
  (list "DISABLE_DRY_RUN" $v.settings.disableDryRun)
  (list "ENABLE_ZONAL_SHIFT" $v.settings.enableZonalShift)
  (list "AWS_RATE_LIMITS" (ternary "" $v.settings.awsRateLimits (eq .service "disruption")))
  (list "AMI_REFRESH_INTERVAL" $v.settings.amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" $v.settings.subnetRefreshInterval)
  (list "BATCH_MAX_DURATION" $v.settings.batchMaxDuration)
  (list "BATCH_IDLE_DURATION" $v.settings.batchIdleDuration)
  (list "PREFERENCE_POLICY" $v.settings.preferencePolicy)
  (list "MIN_VALUES_POLICY" $v.settings.minValuesPolicy)
  (list "IGNORE_DRA_REQUESTS" $v.settings.ignoreDRARequests)
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $v.settings.disableClusterStateObservability)
  (list "FEATURE_GATES" (join "," $gates))
  (list "SHADOW_MODE" $v.settings.shadow)
  (list "SHARED_SERVICE_ACCOUNT" $v.serviceAccount.name)
  (list "LOG_LEVEL" .effective.logLevel)
  (list "METRICS_PORT" .effective.ports.metrics)
  (list "HEALTH_PROBE_PORT" .effective.ports.healthProbe)
  (list "GRPC_ADDR" (printf "[::]:%v" .effective.ports.grpc))
  (list "OTEL_EXPORTER_OTLP_ENDPOINT" $v.tracing.endpoint)
  (list "SHUTDOWN_GRACE" (include "karpenter.handover" .))
}}
{{- if eq .service "interruption-watcher" }}
{{- $own := index $v .service }}
{{- $fixed = concat $fixed (list (list "MANAGE_RULES" $own.manageRules) (list "DRAIN_ON_REBALANCE" $own.drainOnRebalance) (list "EVENT_ACCOUNTS" (join "," $own.eventAccounts))) }}
{{- end }}
{{- range $fixed }}
{{- $value := index . 1 }}
{{- if kindIs "string" $value }}{{ $value = tpl $value $.root }}{{ end }}
{{- if ne (toString $value) "" }}
- {name: {{ index . 0 }}, value: {{ toString $value | quote }}}
{{- end }}
{{- end }}
- {name: SYSTEM_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- with .effective.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* How long a service may take to hand over: less than the pod's grace period, so that it is never cut off. */}}
{{- define "karpenter.handover" -}}
{{- $grace := default 30 .effective.terminationGracePeriodSeconds | int }}
{{- if ge $grace 20 }}{{ sub $grace 10 }}s{{ else }}{{ max 1 (div $grace 2) }}s{{ end }}
{{- end }}

{{/* A rule about the namespace's objects. Our Leases are named after LEADER_ELECTION_NAME, Karpenter's setting, where it is given. */}}
{{- define "karpenter.rule" -}}
{{- $prefix := "karpenter" }}
{{- range .root.Values.controller.env }}
{{- if eq .name "LEADER_ELECTION_NAME" }}{{ $prefix = default $prefix .value }}{{ end }}
{{- end }}
{{- $rule := omit .rule "why" "rare" }}
{{- if and (has "leases" $rule.resources) $rule.resourceNames }}
{{- $names := list }}
{{- range $rule.resourceNames }}
{{- $names = append $names (ternary . (printf "%s%s" $prefix (trimPrefix "karpenter" .)) (eq . "karpenter-leader-election")) }}
{{- end }}
{{- $rule = merge (dict "resourceNames" $names) $rule }}
{{- end }}
{{- toYaml $rule }}
{{- end }}
