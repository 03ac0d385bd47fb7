"""WHAT an outcome is: typed, frozen records that cross process, file and upload borders. Pure: no torch, no cudnn,
no I/O."""
