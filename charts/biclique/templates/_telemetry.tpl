{{- /* OpenTelemetry's settings; the operator hands them on to the tiers. */ -}}
{{- define "biclique.telemetry" -}}
{{- $settings := dict -}}
{{- with .Values.telemetry }}
{{- if .otlpEndpoint }}{{ $_ := set $settings "OTEL_EXPORTER_OTLP_ENDPOINT" .otlpEndpoint }}{{ end -}}
{{- if .prometheus }}
{{- $_ := set $settings "OTEL_METRICS_EXPORTER" (ternary "otlp,prometheus" "prometheus" (ne .otlpEndpoint "")) -}}
{{- $_ := set $settings "OTEL_EXPORTER_PROMETHEUS_HOST" "0.0.0.0" -}}
{{- end }}
{{- if ne (toString .traceRatio) "" }}
{{- $_ := set $settings "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" -}}
{{- $_ := set $settings "OTEL_TRACES_SAMPLER_ARG" (toString .traceRatio) -}}
{{- end }}
{{- $settings = merge (deepCopy .env) $settings -}}
{{- end }}
{{- range $name, $value := $settings }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end -}}
