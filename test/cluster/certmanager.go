package cluster

import (
	"context"

	"attune.io/attune/test/cluster/internal/spec"
)

// StartCertManager installs cert-manager's CRDs and starts its controllers and
// its CA injector, outside of any pod. Certificates can be created when it returns.
func (c *Cluster) StartCertManager(ctx context.Context) error {
	if err := c.kubectl(ctx, "apply", "--server-side", "-f", c.Tools.CertManagerCRDs()); err != nil {
		return err
	}
	if err := c.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "-f", c.Tools.CertManagerCRDs()); err != nil {
		return err
	}
	program, err := c.Tools.Find("cert-manager")
	if err != nil {
		return err
	}
	return c.startProcess(ctx, spec.Command("cert-manager", program, "--kubeconfig="+c.Kubeconfig))
}

func (c *Cluster) kubectl(ctx context.Context, args ...string) error {
	return run(c.Command(ctx, "kubectl", args...))
}
