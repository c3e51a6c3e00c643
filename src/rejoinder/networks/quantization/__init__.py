"""Training for few bits (CONVERT, "quantization aware training").

Every `nn.Embedding` gets 8 bits, everything else 16. In training, both passes see rounded copies,
and the optimiser moves the float32 originals (the paper's shadow copies).
"""
