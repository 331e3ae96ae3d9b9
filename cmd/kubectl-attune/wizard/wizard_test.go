package wizard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/policy"
)

// world is a cluster with the namespace shop, and a terminal with typed lines.
type world struct {
	found    Selection
	unread   error
	backtest error
	asks     bool
	typed    string
	asked    *v1alpha1.AttunePolicy
}

func (w *world) Namespace() (string, error) { return "shop", nil }

func (w *world) Selection(_ context.Context, p *v1alpha1.AttunePolicy) (Selection, error) {
	w.asked = p
	return w.found, w.unread
}

func (w *world) Backtest(_ context.Context, _ *v1alpha1.AttunePolicy, address string) (string, error) {
	return "judged " + address + "\n", w.backtest
}

// run runs the wizard and returns stdout and stderr.
func (w *world) run(t *testing.T, args ...string) (string, string, error) {
	t.Helper()
	return w.runIn(t.Context(), strings.NewReader(w.typed), args...)
}

func (w *world) runIn(ctx context.Context, in io.Reader, args ...string) (string, string, error) {
	var out, errOut bytes.Buffer
	command := New(func() Terminal {
		return Terminal{In: in, Out: &out, Err: &errOut, Asks: w.asks, Format: func(p *input.Written) (string, error) {
			text, err := yaml.Marshal(p)
			return string(text), err
		}}
	}, w)
	command.SetArgs(args)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	return out.String(), errOut.String(), err
}

const usualPolicy = `apiVersion: attune.io/v1alpha1
kind: AttunePolicy
metadata:
  name: deployments
  namespace: shop
spec:
  strategy: Workload
  targetRef:
    kind: Deployment
  updateStrategy:
    resizeMethod: InPlaceOnly
    type: Recommend
`

// Enter takes the answer in brackets, a wrong answer is asked again, and only the policy goes to stdout.
func TestFourQuestions(t *testing.T) {
	w := &world{asks: true, typed: "\n\n\n\n", found: Selection{Workloads: []string{"Deployment/web"}}}
	out, errOut, err := w.run(t)
	require.NoError(t, err)
	assert.Equal(t, usualPolicy, out)
	assert.Contains(t, errOut, "1/4  Which workloads of namespace shop?")
	assert.Contains(t, errOut, "the policy selects Deployment/web\n")
	assert.Contains(t, errOut, "judged")
	for _, line := range strings.Split(errOut, "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
	assert.Equal(t, "deployments", w.asked.Name)

	w = &world{asks: true, typed: "cat\nsts/db\n9\nauto\nadaptive-high\nTwo\n2\n"}
	out, errOut, err = w.run(t)
	require.NoError(t, err)
	p := parsed(t, out)
	assert.Equal(t, v1alpha1.TargetRef{Kind: v1alpha1.KindStatefulSet, Name: "db"}, p.Spec.TargetRef)
	assert.Equal(t, v1alpha1.UpdateAuto, *p.Spec.UpdateStrategy.Type)
	assert.Equal(t, v1alpha1.RiskHigh, *p.Spec.Adaptive.Risk)
	assert.Equal(t, 1, p.Spec.UpdateStrategy.MaxConcurrentResizes.IntValue())
	for _, said := range []string{`"cat" is not a kind that attune manages`, `"9" is not one of Observe, Recommend, `, `"Two" is not one of InPlace, OneByOne or OrRecreate`} {
		assert.Contains(t, errOut, said)
	}
}

func parsed(t *testing.T, text string) *v1alpha1.AttunePolicy {
	t.Helper()
	documents, err := input.ParsePolicy([]byte(text))
	require.NoError(t, err, text)
	return documents.Policy
}

// Without a terminal the flags answer, or the error names the missing ones.
func TestFlagsAnswer(t *testing.T) {
	out, _, err := (&world{}).run(t, "--workloads", "deployment", "--mode", "Auto")
	assert.EqualError(t, err, "stdin is not a terminal: answer all questions with flags, e.g. --strategy Workload --resizes InPlace")
	assert.Empty(t, out)
	for args, want := range map[string]string{
		"--workloads web":                 `--workloads "web" is not a kind that attune manages: use deployment, `,
		"--workloads deployment/web,a=b":  `--workloads "deployment/web,a=b" has a name and labels`,
		"--workloads deployment,":         `--workloads "" is not a valid label selector`,
		"--workloads deployment,a>1":      `--workloads "a>1" is not a valid label selector`,
		"--mode fast":                     `--mode "fast" is not one of `,
		"--name Web!":                     `--name "Web!" is not a valid object name`,
		"--resizes 0 --workloads cronjob": `--resizes "0" is not one of `,
	} {
		w := &world{asks: true}
		out, errOut, err := w.run(t, strings.Fields(args)...)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, out)
		assert.Empty(t, errOut, "nothing is asked")
	}
}

// Conflicting answers are rejected at the second one.
func TestAnswersThatDoNotGoTogether(t *testing.T) {
	out, errOut, err := (&world{asks: true, typed: "\nCanary\nNode\nAdaptive-Low\n\n"}).run(t)
	require.NoError(t, err)
	assert.Contains(t, errOut, "updateStrategy.type Canary is not supported with strategy Node")
	assert.Equal(t, v1alpha1.StrategyAdaptive, *parsed(t, out).Spec.Strategy)
}

// Every answer gives a policy that the operator accepts, and that parses to the same policy.
func TestEveryAnswerIsAPolicy(t *testing.T) {
	for _, workloads := range []string{"deployment", "ds/agent", "cj", "deploy,tier=api,env in (a,b),!old"} {
		for _, mode := range questions[1].options {
			for _, strategy := range questions[2].options {
				for _, resizes := range questions[3].options {
					out, _, err := (&world{}).run(t, "--workloads", workloads, "--mode", mode.name, "--strategy", strategy.name, "--resizes", resizes.name)
					if mode.name == "OneShot" && strategy.name == "Node" || mode.name == "Canary" && strategy.name == "Node" {
						assert.EqualError(t, err, "--strategy: updateStrategy.type "+mode.name+" is not supported with strategy Node: use Observe, Recommend, Initial or Auto, or strategy Workload")
						continue
					}
					require.NoError(t, err)
					p := parsed(t, out)
					settings, err := policy.Resolve(nil, nil, p)
					require.NoError(t, err)
					assert.Equal(t, mode.name, string(*p.Spec.UpdateStrategy.Type))
					assert.True(t, strings.HasPrefix(strategy.name, string(settings.Strategy)))
					assert.Equal(t, resizes.name == oneByOne, p.Spec.UpdateStrategy.MaxConcurrentResizes != nil)
					assert.Equal(t, resizes.name == orRecreate, *p.Spec.UpdateStrategy.ResizeMethod == v1alpha1.ResizeInPlaceOrRecreate)
				}
			}
		}
	}
}

// The wizard writes a new file, and never overwrites one.
func TestTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my policy.yaml")
	args := []string{"--workloads", "deployment,tier=api", "--mode", "Auto", "--strategy", "Workload", "--resizes", "InPlace", "-f", file}
	out, errOut, err := (&world{}).run(t, args...)
	require.NoError(t, err)
	assert.Empty(t, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "deployment-tier-api", parsed(t, string(text)).Name)
	assert.Contains(t, errOut, "kubectl apply -f '"+file+"'\n")
	assert.Contains(t, errOut, "kubectl label namespace shop attune.io/inject=enabled")

	_, _, err = (&world{}).run(t, args...)
	assert.EqualError(t, err, file+" already exists: specify another file with -f, or delete it")
	_, _, err = (&world{}).run(t, append(args[:len(args)-1], filepath.Join(file, "x"))...)
	assert.ErrorContains(t, err, "writing the policy")
}

// An error of the cluster adds a sentence, and never prevents the policy.
func TestPolicyIsWrittenDespiteErrorsOfTheCluster(t *testing.T) {
	w := &world{asks: true, typed: "\n\n\n\n", unread: errors.New("no rights"), backtest: errors.New("no usage")}
	out, errOut, err := w.run(t)
	require.NoError(t, err)
	assert.Equal(t, usualPolicy, out)
	assert.Contains(t, errOut, "the selected workloads are not known, so there is no backtest: no rights\nnothing was applied")
	_, errOut, err = (&world{asks: true, typed: "\n\n\n\n", backtest: errors.New("no usage")}).run(t)
	require.NoError(t, err)
	assert.Contains(t, errOut, "the policy selects no workload in namespace shop\nno backtest: no usage\nnothing was applied")

	w = &world{asks: true, typed: "\n\n\n\n", found: Selection{Workloads: strings.Fields("a b c d e f g"), Lost: []string{"a (policy x: older)"}, Exists: &v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}}}
	_, errOut, err = w.run(t, "--name", "mine", "--address", "http://here")
	require.NoError(t, err)
	assert.Contains(t, errOut, "the policy selects a, b, c, d, e and 2 more\nother policies take precedence for a (policy x: older): set spec.weight")
	assert.Contains(t, errOut, "policy mine already exists in namespace shop: kubectl apply changes it\n")
	assert.Contains(t, errOut, "judged http://here")
}

// Different targets have different names, so that a second run does not replace the first policy.
func TestNamesOfPolicies(t *testing.T) {
	names := map[string]string{}
	for workloads, want := range map[string]string{
		"deployment": "deployments", "sts": "statefulsets",
		"deployment/web": "deployment-web", "sts/web": "statefulset-web",
		"deploy,tier=api": "deployment-tier-api", "deploy,team=api": "deployment-team-api", "sts,tier=api": "statefulset-tier-api",
		"deploy,app.kubernetes.io/Name=My_App": "deployment-app.kubernetes.io-name-my-app",
		"deploy,tier=api,env in (a,b)":         "deployment-tier-api-env-in-a-b",
		"deploy,env notin (a,b)":               "deployment-env-notin-a-b",
		"deploy,env":                           "deployment-env-exists",
		"deploy,!env":                          "deployment-env-doesnotexist",
		"deploy,env=":                          "deployment-env",
	} {
		out, _, err := (&world{}).run(t, "--workloads", workloads, "--mode", "Auto", "--strategy", "Workload", "--resizes", "InPlace")
		require.NoError(t, err)
		name := parsed(t, out).Name
		assert.Equal(t, want, name, workloads)
		assert.Empty(t, names[name], "two targets with one name")
		names[name] = workloads
	}
	long := strings.Repeat("a", 60) + "=" + strings.Repeat("b", 60)
	all := "deploy"
	for _, key := range []string{"a", "b", "c"} {
		all += "," + key + long
	}
	out, _, err := (&world{}).run(t, "--workloads", all, "--mode", "Auto", "--strategy", "Workload", "--resizes", "InPlace")
	require.NoError(t, err)
	assert.Equal(t, "deployments", parsed(t, out).Name, "a name of an object has 253 characters")
}

// The wizard does not replace a policy with another target unless the name is on the command line.
func TestAPolicyOfAnotherTargetIsNotReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	flags := []string{"--workloads", "deployment/web", "--mode", "Auto", "--strategy", "Workload", "--resizes", "InPlace", "-f", file}
	labelled, err := metav1.ParseToLabelSelector("tier=api")
	require.NoError(t, err)
	other := &v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Selector: labelled}
	// This holds even if nothing more is known.
	for _, unread := range []error{nil, errors.New("no rights")} {
		w := &world{found: Selection{Exists: other}, unread: unread}
		out, errOut, err := w.run(t, flags...)
		assert.EqualError(t, err, "policy deployment-web in namespace shop has another target, Deployment,tier=api, and kubectl apply would replace it: specify another name with --name")
		assert.Empty(t, out)
		assert.Empty(t, errOut)
		assert.NoFileExists(t, file)
	}
	same := &v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	_, errOut, err := (&world{found: Selection{Exists: same}}).run(t, flags[:len(flags)-2]...)
	require.NoError(t, err)
	assert.Contains(t, errOut, "policy deployment-web already exists in namespace shop: kubectl apply changes it\n")

	_, errOut, err = (&world{found: Selection{Exists: other}}).run(t, append(flags, "--name", "mine")...)
	require.NoError(t, err)
	assert.FileExists(t, file)
	assert.Contains(t, errOut, "policy mine in namespace shop has another target, Deployment,tier=api: kubectl apply replaces it\n")
}

// After the end of stdin or an interrupt, nothing is written.
func TestNothingIsWrittenBeforeTheLastAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	_, _, err := (&world{asks: true, typed: "\n\n"}).run(t, "-f", file)
	assert.EqualError(t, err, "stdin ended before --strategy was answered: nothing was written")

	ctx, stop := context.WithCancel(t.Context())
	stop()
	silent, hold := io.Pipe()
	defer func() { _ = hold.Close() }()
	_, _, err = (&world{asks: true}).runIn(ctx, silent, "-f", file)
	assert.EqualError(t, err, "interrupted before --workloads was answered: nothing was written")
	assert.NoFileExists(t, file)
}
