package tools

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// argo is the module of Argo Rollouts.
const argo = "github.com/argoproj/argo-rollouts"

// ArgoController is the controller of Argo Rollouts.
func (t Tools) ArgoController() string { return filepath.Join(t.Argo, "rollouts-controller") }

// ArgoCRDs is the directory of its CRDs.
func (t Tools) ArgoCRDs() string { return filepath.Join(t.Argo, "crds") }

// argo makes the controller, and takes the CRDs from where they are.
func (b *builder) argo(ctx context.Context, m module, out string) error {
	if err := b.buildTools(ctx, m, out); err != nil {
		return err
	}
	dir, err := b.golang(ctx, m, "list", "-m", "-f", "{{.Dir}}", argo)
	if err != nil {
		return err
	}
	crds, err := filepath.Glob(filepath.Join(strings.TrimSpace(dir), "manifests", "crds", "*-crd.yaml"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(out, "crds"), 0o755); err != nil {
		return err
	}
	for _, file := range crds {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "crds", filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
