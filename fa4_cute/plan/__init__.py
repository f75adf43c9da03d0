"""Everything about the kernels that is an integer: tiles, memory maps, barriers, descriptors.

Nothing here imports the DSL or torch. The folders in reading order, each of which imports only
those before it:

* ``facts``: the hardware, element types, bits of descriptors and tensor maps;
* ``masks``: which keys a row sees, and which key tiles a query tile visits;
* ``barriers``: mbarriers, their counts and their users;
* ``config``: tile sizes, TMEM columns, stages and budgets, derived from dtype, depths and variant;
* ``memory``: maps of shared memory and Tensor Memory, rings and boxes;
* ``compute``: MMAs, exponentials and probabilities;
* ``spec``: what one kernel is specialised on, with its parameters, warps, order of work and limits;
* ``launch``: grid and scalars of a call, and which kernel is chosen for it.

``depth512_*`` are the same subjects for the CTA-pair kernel.
"""
