{{/*
What holds for one service: its own value where it has one, else the umbrella's. Takes root and service; gives JSON.
*/}}
{{- define "karpenter.effective" -}}
{{- $top := .root.Values }}
{{- $own := index $top .service }}
{{- $s := dict }}
{{- range list "replicas" "logLevel" "priorityClassName" "terminationGracePeriodSeconds" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" "strategy" }}
{{- $value := index $own . }}
{{- if kindIs "invalid" $value }}{{ $value = index $top . }}{{ end }}
{{- $_ := set $s . $value }}
{{- end }}
{{- $budget := default dict $own.podDisruptionBudget }}
{{- $_ := set $s "maxUnavailable" (ternary $budget.maxUnavailable $top.podDisruptionBudget.maxUnavailable (hasKey $budget "maxUnavailable")) }}
{{- range list "podLabels" "podAnnotations" }}
{{- $_ := set $s . (merge (dict) (default dict (index $own .)) (default dict (index $top .))) }}
{{- end }}
{{- if and $top.serviceAccount.name $own.serviceAccount.annotations }}
{{- fail (printf "%s.serviceAccount.annotations has no account to go to: all services run as serviceAccount.name=%s; use serviceAccount.annotations" .service $top.serviceAccount.name) }}
{{- end }}
{{- $_ := set $s "accountAnnotations" (merge (dict) $own.serviceAccount.annotations $top.serviceAccount.annotations) }}
{{- range $own.env }}
{{- if eq .name "LEADER_ELECTION_NAME" }}
{{- fail (printf "%s.env has LEADER_ELECTION_NAME, which all services of an installation share: set it in controller.env" $.service) }}
{{- end }}
{{- end }}
{{- range $top.controller.env }}
{{- if and (eq .name "LEADER_ELECTION_NAME") (not .value) }}
{{- fail "controller.env: LEADER_ELECTION_NAME needs a value here, not a reference: the rights to the Leases are named after it" }}
{{- end }}
{{- end }}
{{- $_ := set $s "env" (concat $top.controller.env $own.env) }}
{{- $_ := set $s "autoscaling" (default (dict "enabled" false) $own.autoscaling) }}
{{- $_ := set $s "ports" (include "karpenter.ports" . | fromJson) }}
{{- $_ := set $s "image" (include "karpenter.image" (merge (dict "own" $own "common" $top.controller.image) .)) }}
{{- $_ := set $s "resources" (include "karpenter.resources" (merge (dict "own" $own.resources "common" $top.controller.resources) .) | fromJson) }}
{{- $s | toJson }}
{{- end }}

{{/*
The ports of one service. On the host's network services share nodes, so each one has ports of its own, 10 above those of the
service before it.
*/}}
{{- define "karpenter.ports" -}}
{{- $v := .root.Values }}
{{- $first := dict "metrics" $v.controller.metrics.port "healthProbe" $v.controller.healthProbe.port "grpc" $v.controller.grpc.port }}
{{- $own := dict }}
{{- $taken := list }}
{{- range $index, $service := include "karpenter.all" . | fromJsonArray }}
{{- range $name, $port := $first }}
{{- $port = add $port (ternary (mul $index 10) 0 $v.hostNetwork) }}
{{- if or $v.hostNetwork (eq $index 0) }}
{{- if has $port $taken }}
{{- fail (printf "controller.%s.port: port %d is taken twice; choose ports that differ%s" $name $port (ternary ", and not by 10, 20, 30 or 40: with hostNetwork each service has ports 10 above those of the one before" "" $v.hostNetwork)) }}
{{- end }}
{{- $taken = append $taken $port }}
{{- end }}
{{- if eq $service $.service }}{{ $_ := set $own $name $port }}{{ end }}
{{- end }}
{{- end }}
{{- $own | toJson }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $chart := (index .root.Subcharts .service).Chart }}
{{- $repository := .own.image.repository | default .common.repository }}
{{- if regexMatch "(^|/)karpenter/controller$" $repository }}
{{- fail (printf "controller.image.repository %s is the image of Karpenter itself, which holds none of these programs: remove controller.image.repository, tag and digest from your values and set controller.image.registry to the registry that holds the images karpenter-<service>" $repository) }}
{{- end }}
{{- if not $repository }}
{{- if not .common.registry }}
{{- fail "controller.image.registry is required: the registry that holds the images karpenter-<service>, e.g. --set controller.image.registry=111122223333.dkr.ecr.eu-west-1.amazonaws.com. `make images REGISTRY=… TAG=…` builds and pushes them" }}
{{- end }}
{{- if .common.digest }}
{{- fail "controller.image.digest names one image, and the five services have one each: set <service>.image.digest instead, e.g. provisioner.image.digest" }}
{{- end }}
{{- $repository = printf "%s/karpenter-%s" (trimSuffix "/" .common.registry) .service }}
{{- end }}
{{- $digest := .own.image.digest }}
{{- /* A digest names one image: the common one fits only where the common image is used. */ -}}
{{- if and (not $digest) (not .own.image.tag) (not .own.image.repository) }}{{ $digest = .common.digest }}{{ end }}
{{- $repository }}:{{ .own.image.tag | default .common.tag | default $chart.AppVersion }}{{ with $digest }}@{{ . }}{{ end }}
{{- end }}

{{/* How much of controller.resources.requests each service gets, in percent. */}}
{{- define "karpenter.shares" -}}
{"provisioner": 40, "disruption": 20, "termination": 15, "interruption-watcher": 10, "pricing-cache": 15}
{{- end }}

{{- define "karpenter.resources" -}}
{{- if .own }}
{{- .own | toJson }}
{{- else if .common }}
{{- $share := index (include "karpenter.shares" . | fromJson) .service }}
{{- $requests := dict }}
{{- range $name, $quantity := .common.requests }}
{{- $_ := set $requests $name (include "karpenter.part" (dict "name" $name "quantity" (toString $quantity) "percent" $share)) }}
{{- end }}
{{- $out := dict }}
{{- with $requests }}{{ $_ := set $out "requests" . }}{{ end }}
{{- with .common.limits }}{{ $_ := set $out "limits" . }}{{ end }}
{{- $out | toJson }}
{{- else }}{}{{ end }}
{{- end }}

{{/* A part of a quantity. What is neither CPU nor written in plain units stays whole. */}}
{{- define "karpenter.part" -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" .quantity }}
{{- $unit := trimPrefix $number .quantity }}
{{- $parts := mulf (float64 $number) .percent }}
{{- if eq .name "cpu" }}
{{- if eq $unit "m" }}{{ max 1 (divf $parts 100 | floor | int) }}m
{{- else if eq $unit "" }}{{ max 1 (mulf $parts 10 | floor | int) }}m
{{- else }}{{ .quantity }}{{ end }}
{{- else }}
{{- $units := dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "" 1.0 "k" 1000.0 "M" 1000000.0 "G" 1000000000.0 "T" 1000000000000.0 }}
{{- if and $number (hasKey $units $unit) }}{{ max 1 (divf (mulf $parts (index $units $unit)) 104857600.0 | floor | int) }}Mi
{{- else }}{{ .quantity }}{{ end }}
{{- end }}
{{- end }}

{{/* The given affinity, without nodes of a NodePool, and with our selector where a pod term has none. */}}
{{- define "karpenter.affinity" -}}
{{- $affinity := deepCopy (default dict .affinity) }}
{{- $never := dict "key" "karpenter.sh/nodepool" "operator" "DoesNotExist" }}
{{- $nodes := default dict $affinity.nodeAffinity }}
{{- $required := default dict $nodes.requiredDuringSchedulingIgnoredDuringExecution }}
{{- $terms := list }}
{{- range default (list dict) $required.nodeSelectorTerms }}
{{- $expressions := list $never }}
{{- range .matchExpressions }}
{{- if not (and (eq .key $never.key) (eq .operator $never.operator)) }}{{ $expressions = append $expressions . }}{{ end }}
{{- end }}
{{- $terms = append $terms (set . "matchExpressions" $expressions) }}
{{- end }}
{{- $_ := set $nodes "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- $_ := set $affinity "nodeAffinity" $nodes }}
{{- $selector := dict "matchLabels" (include "karpenter.selector" . | fromYaml) }}
{{- range list "podAffinity" "podAntiAffinity" }}
{{- with index $affinity . }}
{{- range default list .requiredDuringSchedulingIgnoredDuringExecution }}
{{- if not .labelSelector }}{{ $_ := set . "labelSelector" $selector }}{{ end }}
{{- end }}
{{- range default list .preferredDuringSchedulingIgnoredDuringExecution }}
{{- if not .podAffinityTerm.labelSelector }}{{ $_ := set .podAffinityTerm "labelSelector" $selector }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "karpenter.spread" -}}
{{- $selector := dict "matchLabels" (include "karpenter.selector" . | fromYaml) }}
{{- range .constraints }}
{{- $constraint := deepCopy . }}
{{- if not $constraint.labelSelector }}{{ $_ := set $constraint "labelSelector" $selector }}{{ end }}
- {{- toYaml $constraint | nindent 2 }}
{{- end }}
{{- end }}

{{/* The given tolerations, and how long a failed node is tolerated unless they say so themselves. */}}
{{- define "karpenter.tolerations" -}}
{{- $given := default list .effective.tolerations }}
{{- $keys := list }}
{{- range $given }}{{ $keys = append $keys (default "" .key) }}{{ end }}
{{- range list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- if not (has . $keys) }}
{{- $given = append $given (dict "key" . "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" (int $.root.Values.failureToleranceSeconds)) }}
{{- end }}
{{- end }}
{{- toYaml $given }}
{{- end }}
