package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stateLink, in Options.Dir, leads to the cluster's own directory.
const stateLink = "state"

// leave puts scripts that run programs inside the cluster into dir, if any.
func (c *Cluster) leave(dir string) error {
	if dir == "" {
		return nil
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	kubectl, err := c.Tools.Find("kubectl")
	if err != nil {
		return err
	}
	helm, err := c.Tools.Find("helm")
	if err != nil {
		return err
	}
	scripts := map[string]string{"kubectl": quote(kubectl), "helm": quote(helm), "enter": ""}
	for name, program := range scripts {
		script, err := c.script(program)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	link := filepath.Join(dir, stateLink)
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(c.dir, link)
}

// script runs a program in the cluster's network and in the caller's directory.
// It knows the network by its number, since a pid may come to mean another process.
func (c *Cluster) script(program string) (string, error) {
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.PID))
	if err != nil {
		return "", err
	}
	var env []string
	for _, pair := range c.Tools.Env(filepath.Join(c.dir, "home")) {
		quoted := quote(pair)
		if strings.HasPrefix(pair, "PATH=") {
			// What is deployed beside these scripts is found too, such as kubectl's plugins.
			quoted += ":" + quote(filepath.Join(c.Dir, "bin")) + `:"$PATH"`
		}
		env = append(env, quoted)
	}
	env = append(env, quote("KUBECONFIG="+c.Kubeconfig))
	return fmt.Sprintf(`#!/bin/sh
# Runs inside the cluster %[1]s, in the directory it is called from.
if [ "$(readlink /proc/%[2]d/ns/net)" != %[3]s ]; then
	echo "the cluster %[1]s is not running, start it with: make cluster-up" >&2
	exit 1
fi
[ -n %[5]s"$1" ] || set -- "${SHELL:-/bin/sh}"
exec nsenter -t %[2]d --net -- env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY %[4]s %[5]s "$@"
`, c.Name, c.PID, quote(network), strings.Join(env, " "), program), nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
