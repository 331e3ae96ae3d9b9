package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

type told struct{ skipped, failed string }

func (*told) Helper()             {}
func (x *told) Skip(args ...any)  { x.skipped = fmt.Sprint(args...) }
func (x *told) Fatal(args ...any) { x.failed = fmt.Sprint(args...) }

func TestATestWithoutAKubeletIsSkippedOrFails(t *testing.T) {
	for name, c := range map[string]struct {
		missing  string
		required bool
		want     told
	}{
		"there":              {"", true, told{}},
		"missing":            {"no root", false, told{skipped: "no root"}},
		"missing, but asked": {"no root", true, told{failed: "no root (ATTUNE_REQUIRE_KUBELET is set)"}},
	} {
		var got told
		need(&got, c.missing, c.required)
		assert.Equal(t, c.want, got, name)
	}
}
