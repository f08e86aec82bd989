{{/* The services in the order in which they appear everywhere. */}}
{{- define "karpenter.all" -}}
["provisioner", "disruption", "termination", "interruption-watcher", "pricing-cache"]
{{- end }}

{{/* The services that are installed. */}}
{{- define "karpenter.services" -}}
{{- $found := list }}
{{- range include "karpenter.all" . | fromJsonArray }}
{{- if (index $.Values .).enabled }}{{ $found = append $found . }}{{ end }}
{{- end }}
{{- $found | toJson }}
{{- end }}

{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* As Karpenter's chart makes it: a release named karpenter gives Deployment karpenter. */}}
{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* People type deployment/karpenter and mean the part that makes nodes. */}}
{{- define "karpenter.deployment" -}}
{{- $full := include "karpenter.fullname" .root }}
{{- if eq .service "provisioner" }}{{ $full }}{{ else }}{{ $full }}-{{ .service }}{{ end }}
{{- end }}

{{/* Service, roles, ServiceAccount: what runtime::Service calls this service. Not to be overridden. */}}
{{- define "karpenter.identity" -}}
karpenter-{{ .service }}
{{- end }}

{{/* The ServiceAccount that a service's pods run as: its own, or the one that all five share. */}}
{{- define "karpenter.account" -}}
{{- .root.Values.serviceAccount.name | default (include "karpenter.identity" .) }}
{{- end }}

{{/*
A Deployment's selector is immutable. The provisioner's is exactly that of Karpenter's Deployment of the same name, so that Helm
can patch one into the other, both ways. The other services differ in the instance, because that selector must not match their pods.
*/}}
{{- define "karpenter.selector" -}}
{{- $release := .root.Release.Name -}}
app.kubernetes.io/name: {{ include "karpenter.name" .root }}
app.kubernetes.io/instance: {{ ternary $release (printf "%s-%s" $release .service | trunc 63 | trimSuffix "-") (eq .service "provisioner") }}
{{- end }}

{{/* The pods of all services of this release. */}}
{{- define "karpenter.everyPod" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/part-of: {{ .Release.Name }}
{{- end }}

{{/* Without the service: for what belongs to all. */}}
{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "karpenter.metadata" -}}
name: {{ .name }}
{{- if .namespace }}
namespace: {{ .namespace }}
{{- end }}
labels:
  {{- include "karpenter.labels" .root | nindent 2 }}
  {{- with .service }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
  {{- range $key, $value := .labels }}
  {{ $key }}: {{ $value | quote }}
  {{- end }}
{{- with merge (dict) (default dict .annotations) .root.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
