package tools

import (
	"context"
	"os"
	"path/filepath"
)

// KEDAOperator is KEDA's controller of ScaledObjects.
func (t Tools) KEDAOperator() string { return filepath.Join(t.KEDA, "keda") }

// KEDACRD is the CRD of ScaledObjects.
func (t Tools) KEDACRD() string { return filepath.Join(t.KEDA, "crd.yaml") }

// keda makes its controller from the part of its source that is needed, and takes the CRD from there.
func (b *builder) keda(ctx context.Context) (string, error) {
	m := module{dir: b.moduleDir("keda")}
	sum, err := digest([]string{m.dir, filepath.Join(b.source, "cmd/source")}, linkerFlags)
	if err != nil {
		return "", err
	}
	return cached(filepath.Join(b.cache, "bin", "keda-"+sum), func(out string) error {
		project := filepath.Dir(b.source)
		if err := quietly(ctx, project, "make", "bin/keda/go.mod"); err != nil {
			return err
		}
		if err := b.buildMain(ctx, m, out); err != nil {
			return err
		}
		crd, err := os.ReadFile(filepath.Join(project, "bin/keda/config/crd/bases/keda.sh_scaledobjects.yaml"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(out, "crd.yaml"), crd, 0o644)
	})
}
