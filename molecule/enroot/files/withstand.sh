#!/usr/bin/env bash
# Runs the prolog of the users VICTIM and ATTACKER while ATTACKER attacks VICTIM. Fails if a prolog fails, or if the
# attack succeeds. A call that takes longer than PATIENCE seconds hangs. Usage: withstand.sh VICTIM ATTACKER PATIENCE
set -u
patience=$3
victim=$(id -u "$1") attacker=$(id -u "$2")
directories=(/run/enroot /var/lib/enroot/cache /var/lib/enroot/data)

prolog() { SLURM_JOB_ID=$1 SLURM_JOB_UID=$2 timeout "$patience" /etc/slurm/prolog.d/30-enroot.sh || { echo "the prolog of $2 failed: the node would be drained"; exit 1; }; }

is_own() { # UID
    for directory in "${directories[@]}"; do
        own=$(timeout "$patience" stat --format='%u %a %F' "$directory/user-$1")
        [ "$own" = "$1 700 directory" ] || { echo "$directory/user-$1 is $own"; exit 1; }
        [ -z "$(ls -A "$directory/user-$1")" ] || { echo "something is in $directory/user-$1"; exit 1; }
    done
}

# Create the directories as an older release did, writable by everybody.
rm -f /run/attack.end
prolog 1 "$attacker"
chmod 1777 "${directories[@]}"
runuser --user "$2" -- python3 "${0%/*}/attack.py" /run/attack.end "$victim" "${directories[@]}" > /run/attack.log 2>&1 &
for _ in $(seq "$patience"); do
    grep -q 'holds 3' /run/attack.log && break
    kill -0 $! 2> /dev/null || break
    sleep 1
done
grep -q 'holds 3' /run/attack.log || { echo "the attack did not begin:"; cat /run/attack.log; exit 1; }
for turn in $(seq 2 60); do
    # The victim has not used this node before.
    for directory in "${directories[@]}"; do rm -rf "$directory/user-$victim"; done
    prolog "$turn" "$victim"
    # The first turn has closed the directories.
    [ "$turn" -eq 2 ] || is_own "$victim"
done
prolog 61 "$attacker"
touch /run/attack.end
wait
is_own "$victim"
is_own "$attacker"
[ "$(stat --format=%U "$(getent passwd "$2" | cut -d : -f 6)/prize")" = "$2" ] || { echo "the prize changed hands"; exit 1; }
SLURM_JOB_ID=61 SLURM_JOB_UID=$attacker timeout "$patience" /etc/slurm/epilog.d/70-enroot.sh || { echo "the epilog failed: the node would be drained"; exit 1; }
