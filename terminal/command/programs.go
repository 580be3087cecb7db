package command

import (
	"strings"
)

// readers are the programs that are proven read-only with exactly these options. What is left out on purpose is said
// beside it. Sources: the manuals of GNU coreutils, findutils, grep, ripgrep, jq and procps.
var readers = map[string]*program{
	"pwd":      {short: "LP", long: "logical physical", most: -1},
	"whoami":   {most: -1},
	"id":       {short: "agnruzGZ", long: "user group groups name real zero"},
	"groups":   {},
	"uname":    {short: "asnrvmpio", long: "all kernel-name nodename kernel-release kernel-version machine processor operating-system", most: -1},
	"arch":     {most: -1},
	"nproc":    {long: "all ignore=", most: -1},
	"hostname": {short: "fisdIA", most: -1}, // an operand sets it
	"uptime":   {short: "ps", long: "pretty since", most: -1},
	"tty":      {short: "s", most: -1},
	"logname":  {most: -1},
	"date":     {short: "uR", value: "dr", maybe: "I", long: "utc date= reference= rfc-email iso-8601? rfc-3339=", operand: dateFormat}, // -s sets the clock
	"cal":      {short: "13jmsy"},
	"sleep":    {},
	"seq":      {value: "fs", short: "w", number: true, long: "format= separator= equal-width"},
	"basename": {inert: true, short: "az", value: "s", long: "multiple suffix= zero"},
	"dirname":  {inert: true, short: "z", long: "zero"},
	"readlink": {short: "fmenqsvz", long: "canonicalize canonicalize-existing canonicalize-missing no-newline zero"},
	"realpath": {short: "emLPqsz", long: "canonicalize-existing canonicalize-missing relative-to= relative-base= strip no-symlinks zero"},
	"ls": {inert: true, short: "1ABCDFGHLNQRSUXZabcdfghiklmnopqrstuvx", value: "ITw", long: "all almost-all author escape ignore-backups color? directory dired classify? " +
		"file-type format= full-time group-directories-first no-group human-readable si dereference hide= indicator-style= inode ignore= kibibytes " +
		"numeric-uid-gid literal hide-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= tabsize= width= context zero version help"},
	"dir":    {inert: true, short: "1Aalhtr"},
	"cat":    {short: "AbeEnstTuv", long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"},
	"tac":    {short: "br", value: "s", long: "before regex separator="},
	"head":   {short: "qvz", value: "nc", number: true, long: "bytes= lines= quiet silent verbose zero-terminated"},
	"tail":   {short: "fFqvz", value: "ncs", number: true, long: "bytes= lines= follow? retry pid= quiet silent sleep-interval= verbose zero-terminated"},
	"wc":     {inert: true, short: "clLmw", long: "bytes chars lines max-line-length words files0-from= total="},
	"nl":     {short: "p", value: "bdfhilnsvw"},
	"rev":    {},
	"tr":     {short: "cCdst", long: "complement delete squeeze-repeats truncate-set1"},
	"cut":    {short: "nsz", value: "bcdf", long: "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= zero-terminated"},
	"paste":  {short: "sz", value: "d", long: "delimiters= serial zero-terminated"},
	"comm":   {short: "123z", long: "check-order nocheck-order output-delimiter= total zero-terminated"},
	"join":   {short: "iz", value: "12aejotv", long: "header check-order nocheck-order"},
	"fold":   {short: "bs", value: "w", long: "bytes spaces width="},
	"fmt":    {short: "cstu", value: "wgp", long: "crown-margin split-only tagged-paragraph uniform-spacing width="},
	"expand": {short: "i", value: "t"}, "unexpand": {short: "a", value: "t"},
	"column": {short: "txenL", value: "csoNHRTWJ", long: "table separator= output-separator= columns= json"},
	"numfmt": {value: "d", long: "from= to= field= format= header? invalid= padding= round= suffix= delimiter="},
	"uniq":   {short: "cdDiuz", value: "fsw", long: "count repeated all-repeated? ignore-case unique skip-fields= skip-chars= check-chars= zero-terminated", most: 1}, // the second operand is written
	// sort: -o writes, --compress-program runs, -T leaves files.
	"sort": {short: "bdfghiMnRrVcCmsuz", value: "ktS", long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort " +
		"ignore-nonprinting month-sort numeric-sort random-sort reverse sort= version-sort check? key= field-separator= merge stable unique zero-terminated buffer-size= parallel="},
	"grep": grep, "egrep": grep, "fgrep": grep,
	// rg: --pre and --hostname-bin run programs, -z and --search-zip run decompressors.
	"rg": {short: "0abcFHhiIlLNnopPqsSUuvVwx.", value: "ABCEefgjMmtTrd", long: "after-context= before-context= context= binary block-buffered byte-offset case-sensitive color= colors= column " +
		"context-separator= count count-matches crlf debug encoding= engine= field-context-separator= field-match-separator= file= files files-with-matches files-without-match " +
		"fixed-strings follow glob= glob-case-insensitive heading hidden iglob= ignore-case ignore-file= include-zero invert-match json line-buffered line-number line-regexp " +
		"max-columns= max-columns-preview max-count= max-depth= max-filesize= mmap multiline multiline-dotall no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-exclude " +
		"no-ignore-global no-ignore-parent no-ignore-vcs no-line-number no-messages no-mmap no-unicode null null-data one-file-system only-matching passthru path-separator= pcre2 " +
		"pretty quiet regexp= replace= smart-case sort= sortr= stats text threads= trim type= type-list type-not= unrestricted vimgrep with-filename word-regexp version"},
	"diff": {short: "abBcdeEiNnpqrstTuwyZ", value: "CFIUWxXS", number: true, long: "text brief context? unified? recursive new-file report-identical-files side-by-side width= ignore-case " +
		"ignore-space-change ignore-all-space ignore-blank-lines exclude= exclude-from= label= color? show-c-function suppress-common-lines strip-trailing-cr normal minimal"}, // -l runs pr
	"cmp":   {short: "bls", value: "in", long: "print-bytes bytes= verbose quiet silent ignore-initial="},
	"stat":  {inert: true, short: "Lft", value: "c", long: "dereference file-system format= printf= terse"},
	"du":    {inert: true, short: "0abcDhHklLmsSxP", value: "Bdt", long: "all apparent-size block-size= bytes total max-depth= human-readable inodes dereference summarize threshold= time? exclude= one-file-system null si separate-dirs"},
	"df":    {short: "aHhiklPTv", value: "Btx", long: "all block-size= human-readable si inodes local output? portability print-type total type= exclude-type="},
	"file":  {short: "bhikLnNprsv0", value: "Fe", long: "brief mime mime-type mime-encoding dereference no-dereference keep-going"}, // -C writes, -z runs decompressors
	"gofmt": {short: "dels"},                                                                                                        // -w writes, -cpuprofile too
	"which": {short: "as", long: "all"}, "whereis": {short: "bmsu"},
	"type":    {short: "afptP"},
	"tree":    {short: "adfilsphugDFrtcUvSnCJXqNQ", value: "LPI", long: "noreport dirsfirst prune gitignore charset= sort= du si inodes device matchdirs ignore-case fromfile"}, // -o writes, -R may
	"od":      {short: "abcdfiloxsv", value: "AjNtwS", long: "address-radix= skip-bytes= read-bytes= format= output-duplicates width?"},
	"hexdump": {short: "bcCdovx", value: "ens"},
	"xxd":     {short: "abeEipuR", value: "cglos", most: 1}, // the second operand is written
	"strings": {short: "afow", value: "netT"},
	"cksum":   {}, "sum": {short: "rs"}, "md5sum": sums, "sha1sum": sums, "sha224sum": sums, "sha256sum": sums, "sha384sum": sums, "sha512sum": sums, "b2sum": sums,
	"base64": {short: "di", value: "w", long: "decode ignore-garbage wrap="}, "base32": {short: "di", value: "w", long: "decode ignore-garbage wrap="},
	"jq": {short: "aceCMrRsSnj", value: "L", long: "arg= argjson= args jsonargs ascii-output color-output compact-output exit-status indent= join-output " +
		"monochrome-output null-input raw-input raw-output raw-output0 slurp sort-keys tab seq stream slurpfile= rawfile= from-file="},
	"nm": {short: "aACDgnoprSuz", long: "demangle? dynamic extern-only undefined-only size-sort numeric-sort"}, "size": {short: "ABdox"},
	"ps":    {short: "AaedfFjlLmMTuwxHyZ", value: "oOpUugCtGsk", long: "forest headers no-headers pid= ppid= user= sort= cols= columns= rows="},
	"free":  {short: "bkmghtlwv", value: "cs", long: "bytes kibi mebi gibi human total wide si"},
	"lsblk": {short: "abdfilmnprtJ", value: "oeIx"}, "lscpu": {short: "aJe"},
	"getconf": {}, "locale": {short: "amck"}, "pgrep": {short: "acflnovwxi", value: "dgGPstuU"},
}

var (
	grep = &program{short: "EFGPciIlLnoqsvwxabhHnrRTuUyzZV", value: "ABCDdefm", number: true, long: "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case no-ignore-case " +
		"invert-match word-regexp line-regexp count color? colour? files-without-match files-with-matches max-count= only-matching quiet silent no-messages byte-offset with-filename no-filename " +
		"label= line-number initial-tab null after-context= before-context= context= text binary-files= devices= directories= exclude= exclude-from= exclude-dir= include= recursive " +
		"dereference-recursive line-buffered null-data binary group-separator= no-group-separator version"}
	sums = &program{short: "bctwz", long: "binary check tag text ignore-missing quiet status strict warn zero"}
)

// versions are programs whose only proven use is to tell their version.
var versions = words("node python python3 ruby perl gcc g++ make bash cmake java javac php lua tar gzip curl wget ssh sqlite3 awk gawk sed vim")

func words(s string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		out[w] = true
	}
	return out
}

func dateFormat(value string) string {
	if strings.HasPrefix(value, "+") {
		return ""
	}
	return "it sets the clock"
}

// prove judges the words of a program that runs no other: findings say what is not proven; known is false for a
// program that has no table. name is the program's base name.
func prove(name string, w []Word, dialect Dialect) (findings []Finding, known bool) {
	if len(w) == 2 && versions[name] && w[1].Form == Literal && (w[1].Value == "--version" || w[1].Value == "-version" && (name == "java" || name == "javac")) {
		return nil, true
	}
	switch name {
	case "git":
		return proveGit(w)
	case "find":
		return proveFind(w), true
	case "sed":
		return proveSed(w), true
	case "test", "[":
		return proveTest(w, dialect), true
	case "echo", "true", "false", ":":
		return nil, true
	case "printf":
		return provePrintf(w, dialect), true
	}
	d := readers[name]
	if d == nil {
		return nil, false
	}
	findings, _ = d.args(w)
	return findings, true
}

// stores matches the conversion with which printf sets a variable; some shells evaluate its subscript.
var stores = expression(`%[^A-Za-z%]*[hlLjzt]*n`)

func provePrintf(w []Word, dialect Dialect) []Finding {
	switch {
	case len(w) < 2:
		return nil
	case dialect == Zsh || dialect == Korn:
		return []Finding{{-1, "this shell's printf evaluates arithmetic", true}}
	case w[1].Form != Literal || strings.HasPrefix(w[1].Value, "-"):
		return []Finding{{1, "an option of printf sets a variable", true}}
	case stores().MatchString(w[1].Value):
		return []Finding{{1, "a conversion of printf sets a variable", true}}
	}
	return nil
}
