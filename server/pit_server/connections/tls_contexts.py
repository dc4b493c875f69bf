"""The TLS context of new connections; a renewed certificate is used without a restart."""

import ssl

from pit_server import tls
from pit_server.connections.patient_socket import PatientTlsSocket


class TlsContexts:
    def __init__(self, files: tls.Files) -> None:
        self._files = files
        self._loaded: tuple[float, ...] = ()
        self._context = self._load()

    def current(self) -> ssl.SSLContext:
        try:
            if self._loaded != self._changed_at():
                self._context = self._load()
        except OSError:
            pass  # being replaced: the last good one does until it is whole
        return self._context

    def _load(self) -> ssl.SSLContext:
        changed_at = self._changed_at()
        context = make_context(self._files)
        self._loaded = changed_at
        return context

    def _changed_at(self) -> tuple[float, ...]:
        return tuple(file.stat().st_mtime for file in self._files)


def make_context(files: tls.Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*files)
    context.sslsocket_class = PatientTlsSocket
    return context
