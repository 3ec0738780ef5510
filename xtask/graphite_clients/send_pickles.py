"""A sender of pickles as carbon's documentation shows it. Usage: python send_pickles.py PORT."""
import pickle
import socket
import struct
import sys
import time

now = int(time.time())
for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    points = [("pickled.p%d" % protocol, (now - 10 * i, i + protocol)) for i in range(5)]
    data = pickle.dumps(points, protocol=protocol)
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        connection.sendall(struct.pack("!L", len(data)) + data)
