/* The one version number of all programs. */
#ifndef PROTOCOL_VERSION_H
#define PROTOCOL_VERSION_H

#define TRAINERD_VERSION "0.1.0"

#endif
