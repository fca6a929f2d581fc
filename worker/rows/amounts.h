/* Those of models. */
#include "models/device/amounts.h"
