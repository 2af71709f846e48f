"""Metal Shading Language from lowered kernel IR: structured text, as the IR is structured.

::

    layout      how values of device types are written      scalars, complexes   arithmetic, conversions
    code        lines, temporaries                          memory               arrays, records, views
    emitter     one function: expressions                   statements           control flow
    intrinsics, mathematics, simdgroup, atomics, printing   operations, by tables
    prelude     helper functions, taken in as they are used
    meeting     kernels cut at their barriers, so that all threads of a block come to each
    module      what functions share, the whole text      entry   the kernel itself      functions   device functions
    runtime     how a failing thread reports
"""
