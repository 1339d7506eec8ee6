"""Send a number around a ring of MPI ranks and add up the ranks; rank 0 prints the result."""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size

if rank == 0:
    world.send(1, dest=1 % size)
    closed = world.recv(source=size - 1) == size
else:
    world.send(world.recv(source=rank - 1) + 1, dest=(rank + 1) % size)
    closed = True

total = world.allreduce(rank)
hosts = " ".join(sorted(set(world.allgather(MPI.Get_processor_name()))))
if rank == 0:
    print(f"{size} ranks on {hosts}, the ring is {'closed' if closed else 'broken'}, the sum is {total}")
