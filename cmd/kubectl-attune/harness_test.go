package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/cmd/kubectl-attune/connect"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

var testNow = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// fakeCluster is a cluster whose kubeconfig sets the namespace shop.
type fakeCluster struct {
	client    client.Client
	namespace string
	// pods answers requests to pods; nil: no requests to pods are allowed.
	pods http.Handler
	// version is the version of the API server; empty: it does not answer.
	version string
}

func (f *fakeCluster) Version() (string, error) {
	if f.version == "" {
		return "", errors.New("no answer")
	}
	return f.version, nil
}

func (f *fakeCluster) Context() string { return "test" }

func (f *fakeCluster) AddFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", "shop", "")
}

func (f *fakeCluster) Namespace() (string, error) { return f.namespace, nil }

func (f *fakeCluster) Client() (client.Client, error) {
	if f.client == nil {
		return nil, errors.New("no cluster to talk to")
	}
	return f.client, nil
}

// FetchPod sends a GET for /NAMESPACE/POD/PORT and the path.
func (f *fakeCluster) FetchPod(_ context.Context, namespace, pod string, port int, path string) (connect.Answer, error) {
	if f.pods == nil {
		return connect.Answer{}, forbidden("pods/portforward")
	}
	w := httptest.NewRecorder()
	f.pods.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/%s/%s/%d%s", namespace, pod, port, path), nil))
	return connect.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

// cliTest runs command lines against one cluster.
type cliTest struct {
	t      *testing.T
	client client.Client
	pods   http.Handler
	// version is the version of the API server; empty: it does not answer.
	version string
	// utf8 is true if the terminal shows Unicode.
	utf8 bool
	// in is stdin.
	in string
}

// newCLITest has a cluster with the objects of testdata/cluster.yaml, behind the interceptors.
func newCLITest(t *testing.T, through interceptor.Funcs) cliTest {
	t.Helper()
	objects := readObjects(t, filepath.Join("testdata", "cluster.yaml"))
	// The plugin reads only the metadata of definitions. The fake client derives it from their Go types.
	scheme := newScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(through).Build()
	return cliTest{t: t, client: c}
}

func readObjects(t *testing.T, path string) []client.Object {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	decoder := serializer.NewCodecFactory(newScheme(), serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []client.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		object, _, err := decoder.Decode(document, nil, nil)
		require.NoError(t, err)
		objects = append(objects, object.(client.Object))
	}
}

// answer is the output of one command line.
type answer struct {
	code        int
	out, errOut string
}

func (c cliTest) run(args ...string) answer {
	c.t.Helper()
	var out, errOut bytes.Buffer
	env := &environment{
		IOStreams: genericiooptions.IOStreams{In: bytes.NewBufferString(c.in), Out: &out, ErrOut: &errOut},
		now:       func() time.Time { return testNow },
		cluster:   &fakeCluster{client: c.client, pods: c.pods, version: c.version},
		utf8:      c.utf8,
	}
	code := run(context.Background(), env, args)
	return answer{code: code, out: out.String(), errOut: errOut.String()}
}

// golden compares the answer's stdout with a reviewed file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
