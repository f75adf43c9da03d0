# Raw files into device memory and back.
from std.sys import size_of
from max.gpu.host import DeviceBuffer


def read_into[dtype: DType](buffer: DeviceBuffer[dtype], path: String) raises:
    """Fill device memory with the bytes of a file, which has to have as many."""
    var bytes: List[UInt8]
    with open(path, "r") as file:
        bytes = file.read_bytes()
    with buffer.map_to_host() as host:
        var target = host.unsafe_ptr().unsafe_bitcast[UInt8]()
        if len(bytes) != len(host) * size_of[Scalar[dtype]]():
            raise Error("the size of " + path + " does not fit")
        for i in range(len(bytes)):
            target[unsafe_offset=i] = bytes[i]


def write_from[dtype: DType](buffer: DeviceBuffer[dtype], path: String) raises:
    """Write the bytes of device memory to a file."""
    with buffer.map_to_host() as host:
        var source = host.unsafe_ptr().unsafe_bitcast[UInt8]()
        var bytes = List[UInt8]()
        for i in range(len(host) * size_of[Scalar[dtype]]()):
            bytes.append(source[unsafe_offset=i])
        with open(path, "w") as file:
            file.write_bytes(Span(bytes))
