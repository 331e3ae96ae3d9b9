package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Messages of other writers add no lines or columns, and no control characters reach the terminal.
func TestHostileTexts(t *testing.T) {
	const evil = "\nproblem   forged\tcell\v\f\r\x1b[31m\x7f\u009b\u200e\u200f\u202e\u061c\u2028"
	for _, line := range []string{
		"status -A -o wide", "explain Deployment/web -o wide", "savings -A -o wide", "recommendations -A -o wide", "history -A -o wide", "diff",
		"recommendations -o krr", "status -A -o json", "explain Deployment/web -o json",
	} {
		args := strings.Fields(line)
		clean, spoilt := withMessages(t, "").run(args...), withMessages(t, evil).run(args...)
		assert.Equal(t, strings.Count(clean.out, "\n"), strings.Count(spoilt.out, "\n"), line)
		assert.Equal(t, strings.Count(clean.out, "\t"), strings.Count(spoilt.out, "\t"), line)
		for _, r := range spoilt.out + spoilt.errOut {
			moves := r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
			require.False(t, moves, "%s: %U", line, r)
		}
		if strings.HasSuffix(line, "json") || strings.HasSuffix(line, "krr") {
			assert.True(t, json.Valid([]byte(spoilt.out)), line)
		}
	}
}

// withMessages has the usual cluster, with a suffix on every reason and message.
func withMessages(t *testing.T, end string) cliTest {
	t.Helper()
	objects := readObjects(t, filepath.Join("testdata", "cluster.yaml"))
	for i, object := range objects {
		text, err := json.Marshal(object)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		text, err = json.Marshal(withEnds(fields, "", end))
		require.NoError(t, err)
		objects[i] = reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
		require.NoError(t, json.Unmarshal(text, objects[i]))
	}
	scheme := newScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	return cliTest{t: t, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
}

func withEnds(value any, key, end string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			v[name] = withEnds(below, name, end)
		}
	case []any:
		for i := range v {
			v[i] = withEnds(v[i], key, end)
		}
	case string:
		if key == "message" || key == "reason" {
			return v + end
		}
	}
	return value
}
