package tools

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// vpa is the module of the Vertical Pod Autoscaler, and vpaPrograms are those of its programs that change pods.
const vpa = "k8s.io/autoscaler/vertical-pod-autoscaler"

var vpaPrograms = []string{vpa + "/pkg/updater", vpa + "/pkg/admission-controller"}

// VPAUpdater resizes and evicts pods.
func (t Tools) VPAUpdater() string { return filepath.Join(t.VPA, "updater") }

// VPAAdmissionController sizes new pods.
func (t Tools) VPAAdmissionController() string { return filepath.Join(t.VPA, "admission-controller") }

// VPACRDs is the file with its CRDs.
func (t Tools) VPACRDs() string { return filepath.Join(t.VPA, "crds.yaml") }

// vpa makes its programs, and takes its CRDs from where they are.
func (b *builder) vpa(ctx context.Context, m module, out string) error {
	if err := b.build(ctx, m, linkerFlags, out+"/", vpaPrograms...); err != nil {
		return err
	}
	dir, err := b.golang(ctx, m, "list", "-m", "-f", "{{.Dir}}", vpa)
	if err != nil {
		return err
	}
	crds, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "deploy", "vpa-v1-crd-gen.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "crds.yaml"), crds, 0o644)
}
