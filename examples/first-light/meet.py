"""Two processes of one job connect to each other, using the environment variables that pit sets."""

import os
import socket
import time

me = int(os.environ["PROCESS_INDEX"])
port = int(os.environ["MASTER_PORT"])

if me == 0:
    with socket.create_server((os.environ["HOST_GROUP0_PROCESS0"], port)) as server:
        connection, _ = server.accept()
        with connection:
            print("process 1 says:", connection.recv(100).decode())
            connection.sendall(b"welcome to the pit")
    with open(os.environ["RESULT_FILE"], "w") as result:
        result.write("both processes met\n")
else:
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection((os.environ["HOST_GROUP0_PROCESS0"], port), timeout=10)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # process 0 may start slightly later
    with connection:
        connection.sendall(b"hello from the other side")
        answer = connection.recv(100).decode()
    print("process 0 says:", answer)
    with open(os.environ["KEEP_DIR"] + "/answer.txt", "w") as file:
        file.write(answer + "\n")
