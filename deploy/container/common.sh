# Set the target and the image for build.sh and run.sh, and check that Docker answers. Usage: SCRIPT cpu|cuda|cuda-jax|tpu.
# shellcheck shell=bash
# The variable DOCKER names another client than docker. The variable IMAGE names another image than mixed-precision:TARGET.

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

cd -P "$(dirname "$0")/../.."
target=${1:-}
case $target in
  cpu | cuda | cuda-jax | tpu) ;;
  *) fail "TARGET is cpu, cuda, cuda-jax or tpu, not '$target'" ;;
esac
docker=${DOCKER:-docker}
image=${IMAGE:-mixed-precision:$target}

locks=("requirements/$target.txt" requirements/workflow.txt)
locks_sha256=$(cat "${locks[@]}" | sha256sum | cut -d ' ' -f 1)

command -v "$docker" >/dev/null ||
  fail "Docker is missing; install it (Debian: apt-get install docker.io), or do without: make repro"
answer=$(timeout 30 "$docker" version --format '{{.Server.Version}}' 2>&1) ||
  fail "Docker's daemon does not answer (${answer##*$'\n'}); start it (systemctl start docker)," \
    "and see that $(id -un 2>/dev/null || id -u) may use it (usermod --append --groups docker NAME)"

# label NAME: print the image's label of that name, or nothing if there is no image.
label() {
  "$docker" image inspect --format "{{index .Config.Labels \"$1\"}}" "$image" 2>/dev/null || true
}
