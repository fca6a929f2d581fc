"""The version of this package: that of the programs it was released with (protocol/base/version.h)."""

VERSION = "0.1.0"

# Of the protocol that clients and the daemon speak (docs/protocol.md).
PROTOCOL = 1
