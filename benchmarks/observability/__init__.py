"""The cost of being seen: tracing, OpenTelemetry's metrics and Prometheus, beside none of them."""
