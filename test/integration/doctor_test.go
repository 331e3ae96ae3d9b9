package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/cmd/kubectl-attune/doctor"
)

// The doctor reads everything from a real API server: definitions by their metadata, rights, and kinds that are not
// installed. Who has no right is told of every check that it is unknown.
func TestDoctorReadsARealAPIServer(t *testing.T) {
	c := newClient(t)
	scope := doctor.Scope{Namespace: newNamespace(t, c), Operator: newNamespace(t, c)}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"attune.io/inject": "enabled"}}}`))
	require.NoError(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scope.Namespace}}, label))
	p := newPlugin(t, scope.Namespace)

	levels := func(as ...string) map[string]doctor.Level {
		out, errOut, code := p.run(append(as, "doctor", "-o", "json", "--operator-namespace", scope.Operator)...)
		require.NotEqual(t, 1, code, errOut)
		var answer doctor.Answer
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		of := map[string]doctor.Level{}
		for _, r := range answer.Checks {
			t.Logf("%s %s: %s", r.Result, r.Check, r.Sentence)
			of[r.Check] = r.Result
		}
		return of
	}
	seen := levels()
	for check, want := range map[string]doctor.Level{
		"kubernetes": doctor.OK, "rights": doctor.OK, "operator": doctor.Problem, "policies": doctor.Warning, "usage": doctor.OK,
		"namespaces": doctor.Warning, "vpa": doctor.OK, "hpa": doctor.OK, "quota": doctor.OK,
	} {
		assert.Equal(t, want, seen[check], check)
	}
	assert.Equal(t, doctor.Warning, seen["crds"], "the tests' definitions were not made by the chart")
	for check, level := range levels("--as", "stranger", "--as-group", "system:authenticated") {
		switch check {
		case "kubernetes":
			assert.Equal(t, doctor.OK, level, check)
		case "vpa":
			assert.NotEqual(t, doctor.Warning, level, "ok where the kind is not there, else unknown")
		case "rights":
			assert.Equal(t, doctor.Warning, level, "everybody may ask for their rights")
		default:
			assert.Equal(t, doctor.Unknown, level, check)
		}
	}
}
