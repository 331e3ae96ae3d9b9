package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// terminal is a pseudo-terminal: what is written to it is typed into the program that has its other end.
func terminal(t *testing.T) (typed, end *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = typed.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(typed.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	end, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = end.Close() })
	return typed, end
}

// remembers gives the container of Deployment/web a history of so many days.
func remembers(t *testing.T, c client.Client, namespace string, days int) {
	t.Helper()
	n, step := days*288, 5*time.Minute
	past := codec.Checkpoint{Step: step, First: usage.StepOf(time.Now(), step) - int64(n) + 1, CPU: make([]float64, n), Memory: make([]float64, n)}
	for i := range n {
		past.CPU[i], past.Memory[i] = 0.1+0.1*float64(i%288)/288, float64(200<<20)
	}
	packed := codec.PackCheckpoint(past, 2048)
	require.NotNil(t, packed)
	var rec v1alpha1.AttuneRecommendation
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "deployment-web"}, &rec))
	rec.Spec.Checkpoints = []v1alpha1.Checkpoint{{Name: "app", At: metav1.Now(), Data: packed}}
	require.NoError(t, c.Update(t.Context(), &rec))
}

// The wizard before a real API server: with a person at a terminal, and by flags.
func TestTheWizard(t *testing.T) {
	c := newClient(t)
	p := newPluginWorld(t, c)
	accepted := func(t *testing.T, text string) *unstructured.Unstructured {
		t.Helper()
		made := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &made.Object), text)
		require.NoError(t, c.Create(t.Context(), made.DeepCopy(), client.DryRunAll), text)
		return made
	}

	t.Run("a person at a terminal", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		typed, end := terminal(t)
		_, err := typed.WriteString("deployment/web\nOneShot\n2\n\n")
		require.NoError(t, err)
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), p.program, "wizard", "-f", file, "--kubeconfig", p.kubeconfig)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = end, &stdout, &stderr
		require.NoError(t, cmd.Run(), stderr.String())
		assert.Empty(t, stdout.String())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		made := accepted(t, string(text))
		assert.Equal(t, map[string]any{
			"targetRef": map[string]any{"kind": "Deployment", "name": "web"}, "strategy": "Adaptive", "adaptive": map[string]any{"risk": "Low"},
			"updateStrategy": map[string]any{"type": "OneShot", "resizeMethod": "InPlaceOnly"},
		}, made.Object["spec"])
		for _, said := range []string{
			"1/4  Which workloads of namespace " + p.namespace + "?", "4/4  How are running pods resized",
			"the policy selects Deployment/web\n", "other policies take precedence for Deployment/web (policy api: equal weight 100",
			"no backtest: no usage data of these workloads (embedded)", "nothing was applied: run kubectl apply -f ",
		} {
			assert.Contains(t, stderr.String(), said)
		}
	})
	t.Run("flags, and usage to judge", func(t *testing.T) {
		remembers(t, c, p.namespace, 3)
		out, errOut, code := p.run("wizard", "--workloads", "deployment,tier=api", "--mode", "auto", "--strategy", "workload", "--resizes", "orrecreate")
		require.Zero(t, code, errOut)
		made := accepted(t, out)
		assert.Equal(t, "deployment-tier-api", made.GetName())
		assert.Equal(t, p.namespace, made.GetNamespace())
		assert.Regexp(t, `(?m)^attune +\d+\.\d% .*\ncurrent +\d+\.\d% `, errOut)
		assert.Contains(t, errOut, "1 containers, 2 container-days.")
		assert.Contains(t, errOut, "kubectl label namespace "+p.namespace+" attune.io/inject=enabled\n")
	})
	t.Run("explain draws that usage", func(t *testing.T) {
		out, errOut, code := p.run("explain", "deployment/web")
		require.Zero(t, code, errOut)
		assert.Regexp(t, `(?m)^    usage  \S{24}  hourly peaks \d+m to \d+m, 24h until 20`, out)
	})
	t.Run("no terminal", func(t *testing.T) {
		out, errOut, code := p.run("wizard", "--mode", "Auto")
		assert.Equal(t, 1, code)
		assert.Empty(t, out)
		assert.Equal(t, "error: stdin is not a terminal: answer all questions with flags, e.g. --workloads deployment --strategy Workload --resizes InPlace\n", errOut)
	})
	t.Run("every mode, strategy and way to resize", func(t *testing.T) {
		for _, mode := range []string{"Observe", "Recommend", "Initial", "OneShot", "Canary", "Auto"} {
			for _, strategy := range []string{"Workload", "Adaptive-Low", "Adaptive-High", "Node"} {
				if strategy == "Node" && (mode == "OneShot" || mode == "Canary") {
					continue
				}
				for _, resizes := range []string{"InPlace", "OneByOne", "OrRecreate"} {
					out, errOut, code := p.run("wizard", "--workloads", "ds,app in (a,b)", "--mode", mode, "--strategy", strategy, "--resizes", resizes)
					require.Zero(t, code, errOut)
					accepted(t, out)
				}
			}
		}
	})
	var policies v1alpha1.AttunePolicyList
	require.NoError(t, c.List(t.Context(), &policies, client.InNamespace(p.namespace)))
	assert.Len(t, policies.Items, 1, "nothing is applied")
}
