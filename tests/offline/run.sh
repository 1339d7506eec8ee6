#!/usr/bin/env bash
# Makes the lab from a bundle without a network, and counts the packets that leave. Needs root; GPUCLUSTER_LAB selects a lab.
# Usage: tests/offline/run.sh BUNDLE [DIRECTORY]   (DIRECTORY keeps the control node's environment and cache)
#
# The control node is a network namespace on the bridge of the lab, without a route, and its Ansible comes from the bundle.
# Rules in its namespace and in that of each machine drop and count every packet to another network, and each question to
# a DNS server. The run fails if one counter is not zero, or if a counter does not count.
set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD
patience=$((600 * ${GPUCLUSTER_TEST_PATIENCE:-1}))
bundle=$(realpath "$1")
work=$(realpath -m "${2:-/tmp/gpucluster-offline}")
lab=${GPUCLUSTER_LAB:-0}
space=gpucluster-offline$lab
subnet=10.213.$lab.0/24
export GPUCLUSTER_LAB=$lab XDG_CACHE_HOME=$work/cache PYTHONDONTWRITEBYTECODE=1
machines=(control login gpu1 gpu2)

fail() {
  echo "offline: $*" >&2
  exit 1
}
inside() { nsenter --target "$(podman inspect --format '{{.State.Pid}}' "gpucluster-lab$lab-$1")" --net "${@:2}"; }
every() {
  local name
  for name in "${machines[@]}"; do inside "$name" "$@"; done
  ip netns exec "$space" "$@"
}
on() { podman exec "gpucluster-lab$lab-$1" "${@:2}"; }

# Packets of the link itself (IPv6 neighbours) leave no network. Each daemon of Slurm asks the DNS server once, at its start, for the name of 0.0.0.0
# (0.0.0.0.in-addr.arpa). Nothing here can prevent this, so such a question is refused, and it is not counted.
rules() {
  iptables -A OUTPUT -o lo -j ACCEPT
  iptables -A OUTPUT -p udp --dport 53 -m string --algo bm --hex-string '|013001300130013007|in-addr' -j REJECT
  iptables -A OUTPUT -p udp --dport 53 -j DROP
  iptables -A OUTPUT -p tcp --dport 53 -j DROP
  iptables -A OUTPUT ! -d "$1" -j DROP
  ip6tables -A OUTPUT -o lo -j ACCEPT
  ip6tables -A OUTPUT -d fe80::/10 -j ACCEPT
  ip6tables -A OUTPUT -d ff02::/16 -j ACCEPT
  ip6tables -A OUTPUT -j DROP
}
export -f rules

# Prints the packets that the rules dropped.
dropped() { { iptables -vnxL OUTPUT; ip6tables -vnxL OUTPUT; } | awk '$3 == "DROP" { sum += $1 } END { print sum + 0 }'; }
export -f dropped

sources() { on "$1" sh -c 'cd /etc/apt && find . /var/lib/apt/lists -type f ! -name lock ! -name gpucluster-slurm.list -path "*s*" | sort | xargs sha256sum' | grep -v apt.conf.d; }

mkdir -p "$XDG_CACHE_HOME/gpucluster/lab"
[ -f "$XDG_CACHE_HOME/gpucluster/lab/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C 'gpucluster lab' -f "$XDG_CACHE_HOME/gpucluster/lab/id_ed25519"
.venv/bin/ansible-playbook playbooks/lab_up.yml
bridge=$(podman network inspect "gpucluster-lab$lab" | python3 -c 'import json, sys
found = json.load(sys.stdin)[0]
print(found.get("network_interface") or found["plugins"][0]["bridge"])')

ip netns add "$space"
trap 'ip netns delete "$space"' EXIT
ip link add "off$lab" type veth peer name eth0 netns "$space"
ip link set "off$lab" master "$bridge" up
ip -n "$space" address add "10.213.$lab.250/24" dev eth0
ip -n "$space" link set eth0 up
ip -n "$space" link set lo up
every bash -c "rules $subnet"
# The counters count: a question to a DNS server, and a connection to another network.
every bash -c 'timeout '"$patience"' python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"10.213.'"$lab"'.1\", 53))" 2> /dev/null; [ "$(dropped)" = 1 ]' ||
  fail "a counter does not count"
every bash -c 'iptables -Z OUTPUT; ip6tables -Z OUTPUT'
for name in "${machines[@]}"; do sources "$name" > "$work/sources.$name"; done

echo "== Install the control node from the bundle"
rm -rf "$work/unpacked" "$work/venv"
mkdir -p "$work/unpacked"
tar --extract --file "$bundle" --directory "$work/unpacked" install.sh requirements.txt wheels collections
ANSIBLE_COLLECTIONS_PATH=$work/venv/collections ip netns exec "$space" "$work/unpacked/install.sh" "$work/venv"

site() {
  ip netns exec "$space" timeout --kill-after=60 $((20 * patience)) "$work/venv/bin/ansible-playbook" "$checkout/site.yml" -e "gpucluster_bundle=$bundle" "$@"
}
SECONDS=0
site | tee "$work/first.log" | tail -n 12
echo "== first run: $SECONDS s"
SECONDS=0
site | tee "$work/second.log" | tail -n 12
echo "== second run: $SECONDS s"
! grep -E 'changed=[1-9]' "$work/second.log" || fail "the second run changed something"
on login sinfo
on login runuser -u alice -- srun --nodes=2 --gpus-per-node=2 nvidia-smi -L | wc -l

# gpu1 sees the connection of the jump host, not that of the control node.
cat > "$work/jump.yml" <<'PLAY'
- name: Connect through a jump host
  hosts: gpu1
  gather_facts: false
  vars_files: ["{{ checkout }}/playbooks/vars/cluster.yml"]
  tasks:
    - name: Compare the address of the client
      ansible.builtin.shell: echo "$SSH_CONNECTION"
      register: jump
      failed_when: not jump.stdout.startswith(client)
      changed_when: false
    - name: Copy a file by sftp
      ansible.builtin.copy: {content: x, dest: /tmp/jump, mode: "0600"}
PLAY
printf 'Host *\nIdentityFile %s\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' \
  "$XDG_CACHE_HOME/gpucluster/lab/id_ed25519" > "$work/ssh_config"
jump() {
  ANSIBLE_PIPELINING=true ANSIBLE_SSH_ARGS="-F $work/ssh_config -o ControlMaster=no -o ControlPath=none" ip netns exec "$space" \
    "$work/venv/bin/ansible-playbook" "$work/jump.yml" -e "checkout=$checkout" "$@"
}
jump -e "client=10.213.$lab.250" > "$work/jump.log" || fail "the direct connection failed; see $work/jump.log"
jump -e "client=10.213.$lab.10" -e "gpucluster_bastion=root@10.213.$lab.10" > "$work/jump.log" || fail "no jump; see $work/jump.log"
echo "== gpu1 was reached through control"

packets=$(every bash -c dropped | paste -sd+ | bc)
for name in "${machines[@]}"; do sources "$name" | diff "$work/sources.$name" - || fail "the sources of apt on $name changed"; done
echo "== packets that left: $packets"
[ "$packets" = 0 ] || fail "packets left: $(every bash -c 'iptables -vnxL OUTPUT; ip6tables -vnxL OUTPUT')"
