// Marks functions that are compiled for the host and for GPU devices.
#pragma once

#if defined(__CUDACC__) || defined(__HIPCC__)
#define PACELINE_HOST_DEVICE __host__ __device__
#else
#define PACELINE_HOST_DEVICE
#endif
