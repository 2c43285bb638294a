"""OpenTelemetry: spans leave for a collector where the settings name one; otherwise nothing is loaded and nothing leaves."""

from collections.abc import Iterator
from contextlib import contextmanager

from falaj import __version__
from falaj.base.errors import Invalid


@contextmanager
def trace_to(endpoint: str) -> Iterator[None]:
    if not endpoint:
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise Invalid("[traces] endpoint is set, and the exporter is not installed: pip install 'falaj[traces]'") from None
    resource = Resource.create({"service.name": "falaj", "service.version": __version__})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
