"""How much memory this process has in use."""

import contextlib
import os
import sys

if sys.platform == "win32":

    def resident_bytes() -> int:
        """Bytes of main memory in use; 0 when the system does not tell."""
        import ctypes
        from ctypes import wintypes

        class Counters(ctypes.Structure):
            _fields_ = (
                ("cb", wintypes.DWORD),
                ("PageFaultCount", wintypes.DWORD),
                *((name, ctypes.c_size_t) for name in ("PeakWorkingSetSize", "WorkingSetSize", "a", "b", "c", "d")),
                *((name, ctypes.c_size_t) for name in ("PagefileUsage", "PeakPagefileUsage")),
            )

        counters = Counters(cb=ctypes.sizeof(Counters))
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.K32GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD)
        if not kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb):
            return 0
        return int(counters.WorkingSetSize)

elif sys.platform == "darwin":

    def resident_bytes() -> int:
        """Bytes of main memory the process had in use at most: the system tells no other figure without a child."""
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

else:

    def resident_bytes() -> int:
        """Bytes of main memory in use; 0 when the system does not tell."""
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0
