package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

var onUpstream = flag.Bool("upstream", false, "run Kubernetes' own tests of in-place resize without the operator, with it, and with its webhook")

// upstreamFocus are the names of Kubernetes' tests of in-place resize.
var upstreamFocus = flag.String("upstream-focus", "Pod InPlace Resize|pod-resize-", "which of them")

// upstreamTest has a process and a cluster for itself where it is asked for.
const upstreamTest = "TestUpstream"

func upstream() installation {
	return installation{settings: embeddedSettings, options: cluster.Options{Nodes: 2, Upstream: true, NodeCPU: "1900m", NodeMemory: "8Gi"}}
}

// TestUpstream: Kubernetes' own tests of in-place resize have the same results whether the operator is there, idle, sizes
// the pods of another namespace while its webhook sees theirs as well, or is not there. It shows a table.
func TestUpstream(t *testing.T) {
	if !*onUpstream {
		t.Skip("Kubernetes' own tests have to be built first: -upstream asks for it (make test-upstream)")
	}
	alone(t, undisturbed)
}

func undisturbed(t *testing.T) {
	ctx := t.Context()
	require.NoError(t, env.cluster.Load(ctx, env.cluster.Tools.UpstreamImages()))
	idleOperator := runUpstream(t, "idle")
	labelEveryNamespace(t)
	namespace(ctx, t, "elsewhere", true)
	d, _ := started(t, "elsewhere", 1, idle(wide))
	auto(t, d, tight)
	eventually(t, "the operator is at work", func() error { return told(ctx, d, "Success", "") })
	webhook := runUpstream(t, "webhook")
	require.NoError(t, env.cluster.Command(ctx, "helm", "uninstall", "attune", "--namespace", deploy.Namespace, "--wait").Run())
	without := runUpstream(t, "without")
	t.Logf("\n| | passed | failed | skipped |\n|---|---|---|---|\n| without attune | %s |\n| attune, idle | %s |\n| attune and its webhook | %s |\n%s",
		without.count(), idleOperator.count(), webhook.count(), without.failures())
	assert.NotZero(t, without.in("passed"))
	assert.Equal(t, without.states(), idleOperator.states(), "with an operator that has nothing to do")
	assert.Equal(t, without.states(), webhook.states(), "with its webhook")
}

// labelEveryNamespace, as it is made, so that the operator's webhook is asked about its pods.
func labelEveryNamespace(t *testing.T) {
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "inject-everywhere"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
				},
			}}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: fmt.Sprintf("Object{metadata: Object.metadata{labels: {%q: %q}}}", v1alpha1.InjectLabel, v1alpha1.InjectEnabled),
				},
			}},
		},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name},
	}
	require.NoError(t, env.client.Create(t.Context(), policy))
	require.NoError(t, env.client.Create(t.Context(), binding))
	tries := 0
	eventually(t, "namespaces get the label", func() error {
		tries++
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("labelled-%d", tries)}}
		if err := env.client.Create(t.Context(), ns); err != nil {
			return err
		}
		if ns.Labels[v1alpha1.InjectLabel] != v1alpha1.InjectEnabled {
			return fmt.Errorf("%s has the labels %v", ns.Name, ns.Labels)
		}
		return nil
	})
}

// upstreamRun is what became of Kubernetes' own tests once, by their names.
type upstreamRun map[string]upstreamResult

type upstreamResult struct{ state, failure string }

// runUpstream runs them. That some of them fail is no error: it is compared.
func runUpstream(t *testing.T, name string) upstreamRun {
	t.Helper()
	dir := t.TempDir()
	tools := env.cluster.Tools
	cmd := env.cluster.Command(t.Context(), tools.GinkgoProgram(), "run", "--procs=6", "--no-color", "--succinct", "--timeout=2h",
		"--focus="+*upstreamFocus, "--output-dir="+dir, "--json-report=report.json", tools.UpstreamProgram(), "--",
		"--kubeconfig="+env.cluster.Kubeconfig, "--provider=skeleton", "--delete-namespace-on-failure=true")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if artifacts := os.Getenv("ATTUNE_ARTIFACTS"); artifacts != "" {
		assert.NoError(t, os.WriteFile(filepath.Join(artifacts, "upstream-"+name+".log"), out, 0o600))
	}
	text, readErr := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, readErr, "%v: %s", err, tail(string(out)))
	run, err := readUpstream(text)
	require.NoError(t, err)
	return run
}

func tail(s string) string {
	const enough = 4000
	return s[max(0, len(s)-enough):]
}

// readUpstream reads ginkgo's report. What the focus leaves out is left out here too.
func readUpstream(text []byte) (upstreamRun, error) {
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
			NumAttempts             int
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, err
	}
	run := upstreamRun{}
	for _, suite := range suites {
		for _, r := range suite.SpecReports {
			if r.LeafNodeType != "It" || r.NumAttempts == 0 && r.Failure.Message == "" {
				continue
			}
			run[strings.Join(append(r.ContainerHierarchyTexts, r.LeafNodeText), " ")] = upstreamResult{r.State, r.Failure.Message}
		}
	}
	return run, nil
}

func (r upstreamRun) in(state string) int {
	n := 0
	for _, one := range r {
		if one.state == state {
			n++
		}
	}
	return n
}

func (r upstreamRun) states() map[string]string {
	out := map[string]string{}
	for name, one := range r {
		out[name] = one.state
	}
	return out
}

func (r upstreamRun) count() string {
	return fmt.Sprintf("%d | %d | %d", r.in("passed"), len(r)-r.in("passed")-r.in("skipped"), r.in("skipped"))
}

// failures and what was skipped, with why.
func (r upstreamRun) failures() string {
	var lines []string
	for name, one := range r {
		if one.state != "passed" {
			first, _, _ := strings.Cut(one.failure, "\n")
			lines = append(lines, fmt.Sprintf("%s: %s: %s", one.state, name, first))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
