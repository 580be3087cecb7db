"""Serves a model by llama.cpp's own server on a free port of this machine, until standard input ends.

It prints the server's address. The second argument is the template that tells the model of tools, and from which llama.cpp
learns how calls look: that in small models' files knows no tools, and then a request's tools are left out without a word.
In ours an answer has a mark of its own. Without one, the grammar of a call that is required lets any text stand before it.
"""

import sys

import xllamacpp

model, template = sys.argv[1:]
p = xllamacpp.CommonParams()
p.model.path = model
p.hostnames = ["127.0.0.1"]
p.port = 0
p.n_ctx = 8192
p.n_parallel = 1
# A thread that waits for another spins: on a machine with other work two threads are slower than one.
p.cpuparams.n_threads = 1
p.cpuparams_batch.n_threads = 1
with open(template, encoding="utf-8") as f:
    p.chat_template = f.read()
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
