{{- define "nodepool.metadata" -}}
name: {{ .name }}
labels:
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  {{- with .root.Values.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Maps are merged, lists and scalars replaced, keys set to null removed. Takes under and over; gives JSON. */}}
{{- define "nodepool.merge" -}}
{{- $out := deepCopy .under }}
{{- range $key, $value := .over }}
{{- if kindIs "invalid" $value }}
{{- $out = omit $out $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (index $out $key)) }}
{{- $_ := set $out $key (include "nodepool.merge" (dict "under" (index $out $key) "over" $value) | fromJson) }}
{{- else }}
{{- $_ := set $out $key $value }}
{{- end }}
{{- end }}
{{- $out | toJson }}
{{- end }}
