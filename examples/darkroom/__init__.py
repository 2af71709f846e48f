"""A darkroom: a photograph developed by kernels that are compiled once and relocated ever after.

The example package of Sterna (``sterna demo`` runs it).  Read it in this order:

``film``       what the kernels capture from the host: curves, grain, exposure, enum, parameters
``curves``     device functions, called from the kernels' file
``kernels``    the five kernels
``develop``    the launches, from a picture to a print and its histogram
``reference``  the same in NumPy, to check against
``session``    what one process of the demo does; the fresh one refuses to import the compiler
``pictures``   reading and writing images, the histogram plot
"""
