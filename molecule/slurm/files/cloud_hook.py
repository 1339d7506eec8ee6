# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The program of a site on the controller: it passes its word and its input on to cloud.py, at the gateway.

If there is a file for its word, it kills its caller instead, once.
"""

import os
import re
import signal
import sys
import urllib.request
from pathlib import Path

kill = Path(f"/var/spool/slurmctld/kill-{sys.argv[1]}")
if kill.exists():
    kill.unlink()
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(1)

route = re.search(r"^\S+\t00000000\t(\w{8})", Path("/proc/net/route").read_text(encoding="ascii"), re.MULTILINE)
gateway = ".".join(str(int(route[1][at : at + 2], 16)) for at in (6, 4, 2, 0))
request = urllib.request.Request(f"http://{gateway}:8700/{sys.argv[1]}", data=sys.stdin.buffer.read() or b"null")
# bound: elastic.sh has the patience
print(urllib.request.urlopen(request, timeout=900).read().decode())  # noqa: S310
